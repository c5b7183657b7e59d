//! A fast check that a write is valid and needs no change, in one walk over the changed fields.
//!
//! Most writes change a status and contain no unknown, missing or invalid value. For such a write,
//! the four walks for defaults, pruning, validation and duplicates find nothing. This walk replaces
//! them. It returns true only if none of them would change or refuse the object. If it returns
//! false, the caller must run the four walks.

use serde_json::{Number, Value};

use super::correlate::{Pair, Stored};
use super::node::{Additional, ListType, Schema, Type};
use super::pruning;
use super::trail::Trail;
use super::{format, rules};

/// A field that a write changes.
#[derive(Clone, Copy, Debug)]
pub struct Touched<'a> {
    /// The name of the field.
    pub name: &'a str,
    /// The value after the write; `None` if the write removes the field.
    pub new: Option<&'a Value>,
    /// The value before the write; `None` if the write adds the field.
    pub old: Option<&'a Value>,
}

impl Schema {
    /// Whether an object with these fields has every field that has a default.
    pub fn has_all_defaults(&self, has: impl Fn(&str) -> bool) -> bool {
        !self.has_defaults
            || self
                .properties
                .iter()
                .all(|(name, schema)| schema.default.is_none() || has(name))
    }

    /// Whether a field is unchanged by defaulting and pruning, and valid except for the CEL rules.
    pub fn settles(&self, name: &str, value: &Value) -> bool {
        match name {
            "apiVersion" | "kind" => value.is_string(),
            "metadata" => pruning::knows_metadata(value) && self.properties.get(name).is_none_or(is_loose),
            _ => self.field(name).is_some_and(|schema| schema.is_settled(value)),
        }
    }

    /// Whether an object is valid after a write to these fields, all of which settle. The other
    /// fields were validated before.
    ///
    /// False is not a result: then call [`Schema::validate_over`].
    pub fn accepts(&self, touched: &[Touched<'_>]) -> bool {
        let loose = self.all_of.is_empty()
            && self.any_of.is_empty()
            && self.one_of.is_empty()
            && self.not.is_none()
            && self.rules.is_empty()
            && self.allowed.is_empty()
            && self.min_properties.is_none()
            && self.max_properties.is_none()
            && (self.types.is_empty() || self.has_type(Type::Object));
        loose && touched.iter().all(|one| self.accepts_field(*one))
    }

    fn accepts_field(&self, touched: Touched<'_>) -> bool {
        let Touched { name, new, old } = touched;
        let Some(new) = new else {
            return self.required.iter().all(|required| required != name);
        };
        let Some(schema) = self.field(name) else {
            return matches!(name, "apiVersion" | "kind" | "metadata");
        };
        let trail = Trail::ROOT.child(name);
        if name == "metadata" && !schema.check(new, None, &trail).is_empty() {
            return false;
        }
        let pair = old.map(|old| Pair {
            schema,
            new,
            old,
            stored: Stored::Judged,
        });
        !schema.has_rules || rules::judge_field(schema, new, pair, &trail).is_empty()
    }

    /// [`Schema::settles`] for a value below the root.
    fn is_settled(&self, value: &Value) -> bool {
        let combined =
            !(self.all_of.is_empty() && self.any_of.is_empty() && self.one_of.is_empty() && self.not.is_none());
        if combined || self.embedded || !(self.allowed.is_empty() || self.allowed.contains(value)) {
            return false;
        }
        match value {
            Value::Null => self.nullable && self.allowed.is_empty(),
            Value::Bool(_) => self.may_be(Type::Boolean) && self.format.is_none(),
            Value::Number(number) => self.takes_number(number),
            Value::String(text) => self.takes_text(text),
            Value::Array(list) => self.takes_list(list),
            Value::Object(map) => self.takes_object(map),
        }
    }

    fn may_be(&self, wanted: Type) -> bool {
        self.types.is_empty() || self.has_type(wanted)
    }

    fn takes_number(&self, number: &Number) -> bool {
        let Some(whole) = number.as_i64() else { return false };
        let fits = match self.format.as_deref() {
            None | Some("int64") => true,
            Some("int32") => i32::try_from(whole).is_ok(),
            Some(_) => false,
        };
        let data = number.as_f64().unwrap_or(f64::NAN);
        let bounds = [self.minimum, self.maximum];
        fits && (self.types.is_empty() || self.types == [Type::Integer])
            && self.multiple_of.is_none()
            && bounds.iter().flatten().all(|bound| bound.value.fract() == 0.0)
            && self.minimum.is_none_or(|bound| !bound.is_above(data))
            && self.maximum.is_none_or(|bound| !bound.is_below(data))
    }

    fn takes_text(&self, text: &str) -> bool {
        // A text has at most as many characters as bytes.
        let fits = self.max_length.is_none_or(|most| text.len() as u64 <= most)
            && self.min_length.is_none_or(|least| text.chars().count() as u64 >= least);
        self.may_be(Type::String)
            && fits
            && self.pattern.as_ref().is_none_or(|pattern| pattern.is_match(text))
            && self.format.as_ref().is_none_or(|format| format::holds(format, text))
    }

    fn takes_list(&self, list: &[Value]) -> bool {
        let size = list.len() as u64;
        let fits = self.min_items.is_none_or(|least| size >= least) && self.max_items.is_none_or(|most| size <= most);
        let items = match &self.items {
            Some(items) => !self.preserve && list.iter().all(|item| items.is_settled(item)),
            None => self.preserve || list.iter().all(is_plain),
        };
        let mut pairs = list
            .iter()
            .enumerate()
            .flat_map(|(at, one)| list.iter().take(at).map(move |before| (before, one)));
        let unique = match &self.list {
            ListType::Atomic => true,
            ListType::Set => pairs.all(|(before, one)| before != one),
            ListType::Map(keys) => {
                list.iter().all(Value::is_object)
                    && pairs.all(|(before, one)| keys.iter().any(|key| before.get(key) != one.get(key)))
            }
        };
        fits && items && unique && self.may_be(Type::Array) && self.format.is_none()
    }

    fn takes_object(&self, map: &serde_json::Map<String, Value>) -> bool {
        let size = map.len() as u64;
        let fits = self.min_properties.is_none_or(|least| size >= least)
            && self.max_properties.is_none_or(|most| size <= most);
        let whole = self.required.iter().all(|name| map.contains_key(name))
            && (!self.has_defaults
                || self
                    .properties
                    .iter()
                    .all(|(name, schema)| schema.default.is_none() || map.contains_key(name)));
        fits && whole && self.may_be(Type::Object) && self.format.is_none() && self.knows_and_takes(map)
    }

    /// Whether every field of an object is known and settles. Both maps are sorted by name and are
    /// walked together.
    fn knows_and_takes(&self, map: &serde_json::Map<String, Value>) -> bool {
        let mut properties = self.properties.iter().peekable();
        map.iter().all(|(name, value)| {
            while properties.next_if(|(there, _)| *there < name).is_some() {}
            let known = properties.next_if(|(there, _)| *there == name);
            match (known, &self.additional) {
                (Some((_, schema)), _) => schema.is_settled(value),
                (None, Some(Additional::Schema(schema))) => schema.is_settled(value),
                (None, Some(Additional::Any)) => is_plain(value),
                (None, None) => self.preserve,
            }
        })
    }
}

/// Whether the value is a scalar other than null, which a default may replace.
fn is_plain(value: &Value) -> bool {
    value.is_string() || value.is_boolean() || value.is_number()
}

/// Whether the schema of `metadata` neither adds nor removes a field.
fn is_loose(schema: &Schema) -> bool {
    !schema.has_defaults && !schema.has_unique_lists
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cel::rules::RuleFile;

    /// If the fast check accepts an object, the four walks neither change nor refuse it.
    #[test]
    fn an_object_that_settles_is_neither_changed_nor_refused() {
        let schema = Schema::parse(
            &json!({"type": "object", "properties": {"status": {"type": "object", "required": ["name"], "properties": {
                "name": {"type": "string", "minLength": 2, "maxLength": 4, "pattern": "^[a-z]*$"},
                "at": {"type": "string", "format": "date-time", "nullable": true},
                "count": {"type": "integer", "format": "int32", "minimum": 0, "maximum": 9},
                "part": {"type": "number", "multipleOf": 0.5},
                "mode": {"type": "string", "enum": ["a", "b"], "default": "a"},
                "yes": {"type": "boolean"},
                "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                "map": {"type": "object", "additionalProperties": {"type": "string"}, "maxProperties": 1},
                "list": {"type": "array", "maxItems": 2, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
                    "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}, "v": {"type": "integer", "default": 1}}}},
                "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            }}}}),
            &RuleFile::default(),
        )
        .unwrap();
        let values = [
            json!(null),
            json!(true),
            json!(1),
            json!(12),
            json!(-1),
            json!(1.0),
            json!(1.25),
            json!("a"),
            json!("ab"),
            json!("äb"),
            json!("2026-01-01T00:00:00Z"),
            json!("abcde"),
            json!([]),
            json!({}),
            json!(["a", "b"]),
            json!(["a", "a"]),
            json!({"x": "1"}),
            json!({"x": null}),
            json!({"x": "1", "y": "2"}),
            json!([null]),
            json!([{"k": "a", "v": 1}, {"k": "b", "v": 2}]),
            json!([{"k": "a", "v": 1}, {"k": "a", "v": 2}]),
            json!([{"k": "a"}]),
            json!([{"v": 1}]),
            json!([{"k": "a", "v": 1, "z": 1}]),
        ];
        let fields = [
            "name", "at", "count", "part", "mode", "yes", "any", "map", "list", "set", "other",
        ];
        let (mut settled_count, mut all) = (0, 0);
        for field in fields {
            for value in &values {
                let mut status = json!({"name": "abc", "mode": "b"});
                status[field] = value.clone();
                let object = json!({ "status": status });
                let mut settled = object.clone();
                schema.set_defaults(&mut settled);
                let unknown = schema.prune(&mut settled);
                let fine = settled == object && unknown.is_empty() && schema.validate(&object, None).is_empty();
                let settles = schema.settles("status", &object["status"]);
                assert!(fine || !settles, "{object}");
                settled_count += usize::from(settles);
                all += usize::from(fine);
            }
        }
        assert!(
            settled_count > 12 && all - settled_count < 12,
            "{settled_count} of {all}"
        );
        let bare = json!({"mode": "a"});
        assert!(!schema.settles("status", &bare), "a required field is missing");
        assert!(
            !schema.settles("status", &json!({"name": "abc"})),
            "a default is missing"
        );
        assert!(!schema.settles("spec", &bare), "an unknown field is dropped");
        assert!(schema.settles("metadata", &json!({"name": "a"})) && !schema.settles("metadata", &json!({"nam": "a"})));
    }
}
