//! The walk to the values at the path of a rule about a field, through lists, with the old values.

use serde_json::Value;

use super::compiled::{CompiledRule, Finding};
use super::file::Segment;
use crate::model::{Stored, is_same};

/// A walk over an object for rules with the same path.
pub(super) struct Walk<'s, 'r, 'f, 'v> {
    /// The rules. Either all of them are transition rules, or none.
    pub(super) rules: &'s [&'r CompiledRule],
    pub(super) transitions: bool,
    pub(super) findings: &'f mut Vec<Finding<'r, 'v>>,
}

impl<'v> Walk<'_, '_, '_, 'v> {
    /// Evaluates the rules at `path` in an object, with the old object of an update.
    pub(super) fn object(&mut self, path: &[Segment], this: &'v Value, old: Option<&dyn Stored>) {
        let walked = &mut String::new();
        if let Some((Segment::Field(field), rest)) = path.split_first() {
            let before = old.and_then(|old| old.field(field));
            self.field(field, rest, walked, this, before, old.is_some());
        } else {
            let whole = old.map(Stored::whole);
            self.step(path, walked, this, whole.as_deref(), old.is_some());
        }
    }

    fn field(
        &mut self,
        field: &str,
        rest: &[Segment],
        walked: &mut String,
        this: &'v Value,
        before: Option<&Value>,
        correlated: bool,
    ) {
        let Some(next) = this.get(field).filter(|value| !value.is_null()) else {
            return;
        };
        let length = walked.len();
        if !walked.is_empty() {
            walked.push('.');
        }
        walked.push_str(field);
        self.step(rest, walked, next, before.filter(|value| !value.is_null()), correlated);
        walked.truncate(length);
    }

    /// `correlated` is whether `old`, which may be absent, is the old value of `this`.
    fn step(&mut self, path: &[Segment], walked: &mut String, this: &'v Value, old: Option<&Value>, correlated: bool) {
        let Some((segment, rest)) = path.split_first() else {
            self.judge(walked, this, old);
            return;
        };
        match segment {
            Segment::Field(field) => {
                self.field(
                    field,
                    rest,
                    walked,
                    this,
                    old.and_then(|old| old.get(field)),
                    correlated,
                );
            }
            // The items of an unchanged list are unchanged. An object on the way is not compared:
            // its fields are found by name, and the value at the end of the path is compared.
            _ if !self.transitions && correlated && is_same(old, Some(this)) => {}
            Segment::Items => self.items(rest, walked, this, |_| None, false),
            Segment::ItemsBy(key) => {
                let find = |item: &Value| old?.as_array()?.iter().find(|before| before.get(key) == item.get(key));
                self.items(rest, walked, this, find, correlated);
            }
        }
    }

    fn items<'o>(
        &mut self,
        path: &[Segment],
        walked: &mut String,
        this: &'v Value,
        before: impl Fn(&Value) -> Option<&'o Value>,
        correlated: bool,
    ) {
        for (position, item) in this.as_array().into_iter().flatten().enumerate() {
            let length = walked.len();
            walked.push_str(&format!("[{position}]"));
            self.step(path, walked, item, before(item), correlated);
            walked.truncate(length);
        }
    }

    fn judge(&mut self, path: &str, this: &'v Value, old: Option<&Value>) {
        // A transition rule is about a change, so it does not apply to a value that was absent
        // before.
        if is_same(old, Some(this)) || self.transitions && old.is_none() {
            return;
        }
        for &compiled in self.rules {
            let error = match compiled.evaluate(this, old) {
                Ok(true) => continue,
                Ok(false) => None,
                Err(error) => Some(error),
            };
            self.findings.push(Finding {
                rule: &compiled.rule,
                path: path.to_owned(),
                value: this,
                error,
            });
        }
    }
}
