//! Carries a field of the source along on the converted object, where the other API has no such
//! field and needs none.
//!
//! A rule may keep a value only if the machine is the same without it: the value is ignored by the
//! API that has it, or its effect lasts in the other API. The way back restores the value while the
//! part of the machine that it describes is unchanged.

use serde_json::{Map, Value};

use super::Pass;
use crate::conversion::carried::Carried;
use crate::conversion::tree;

/// What a kept value describes. A change of it ends the validity of the kept value.
#[derive(Clone, Debug)]
pub(in crate::conversion) enum Described {
    /// A value that both directions know.
    Value(Value),
    /// Fields of the converted object, which are the source of the way back.
    Fields(&'static [&'static str]),
}

impl Described {
    /// The described value, which the hash covers. `converted` holds the fields.
    fn value(&self, converted: &Value) -> Value {
        match self {
            Self::Value(value) => value.clone(),
            Self::Fields(paths) => {
                let fields = paths.iter().map(|path| {
                    let value = tree::get(converted, path).cloned().unwrap_or_default();
                    ((*path).to_owned(), value)
                });
                Value::Object(fields.collect::<Map<_, _>>())
            }
        }
    }
}

/// A value that the converted object will carry.
#[derive(Clone, Debug)]
pub(in crate::conversion) struct Kept {
    section: &'static str,
    original: Value,
    described: Described,
}

impl Pass<'_> {
    /// Keeps a value of the source in a section of the annotation.
    pub(in crate::conversion) fn keep(&mut self, section: &'static str, original: Value, described: Described) {
        self.kept.push(Kept {
            section,
            original,
            described,
        });
    }

    /// The value that the source carries in a section. Fields of `described` must not be taken
    /// from the source before.
    pub(in crate::conversion) fn restored(&self, section: &str, described: &Described) -> Option<Value> {
        let restored = self.env.restored?;
        restored
            .original(section, &described.value(&self.source.value))
            .cloned()
    }

    /// Adds the kept values to what the converted object carries.
    pub(in crate::conversion) fn write_kept(&mut self, carried: &mut Carried) {
        let target = Value::Object(std::mem::take(&mut self.target));
        for kept in std::mem::take(&mut self.kept) {
            carried.add(kept.section, kept.original, &kept.described.value(&target));
        }
        if let Value::Object(target) = target {
            self.target = target;
        }
    }
}
