//! Takes fields out of a JSON tree and puts fields into one.
//!
//! A conversion takes every field that it understands out of the source tree. What is left was
//! not understood, and is reported. A container that becomes empty is removed with its last
//! field, so that only fields without a rule are left.
//!
//! Must never: panic on any JSON value.

use serde_json::{Map, Value};

/// A JSON value that shrinks as its fields are taken, with its path in the object that it is from.
#[derive(Clone, Debug, Default)]
pub(super) struct Tree {
    /// What is left.
    pub(super) value: Value,
    /// The path of the value.
    pub(super) root: String,
    /// The full paths of fields that must be strings and are not. They stay in the value.
    not_texts: Vec<String>,
}

impl Tree {
    /// A tree of `value`, which stands at `root`.
    pub(super) fn new(root: impl Into<String>, value: Value) -> Self {
        Self {
            value,
            root: root.into(),
            not_texts: Vec::new(),
        }
    }

    /// A tree of a field that is left, which knows the fields of it that must be strings.
    pub(super) fn rest_of(&self, field: &str, value: Value) -> Self {
        Self {
            not_texts: self.not_texts.clone(),
            ..Self::new(self.path(field), value)
        }
    }

    /// Takes the value at a dotted path. `None` if it is absent or null.
    pub(super) fn take(&mut self, path: &str) -> Option<Value> {
        take(&mut self.value, path)
    }

    /// Takes a non-empty string. Another value stays, and is reported with the rest.
    pub(super) fn take_text(&mut self, path: &str) -> Option<String> {
        match self.get(path)? {
            Value::String(_) => match self.take(path)? {
                Value::String(text) if !text.is_empty() => Some(text),
                _ => None,
            },
            _ => {
                let path = self.path(path);
                self.not_texts.push(path);
                None
            }
        }
    }

    /// Whether the field that is left at a full path must be a string.
    pub(super) fn must_be_text(&self, path: &str) -> bool {
        self.not_texts.iter().any(|known| known == path)
    }

    /// Takes a list, as one tree for each item; empty if it is absent. `Err` has another value,
    /// which is taken too.
    pub(super) fn take_items(&mut self, path: &str) -> Result<Vec<Self>, Value> {
        let root = self.path(path);
        match self.take(path) {
            None => Ok(Vec::new()),
            Some(Value::Array(items)) => Ok(items
                .into_iter()
                .enumerate()
                .map(|(index, item)| Self::new(format!("{root}[{index}]"), item))
                .collect()),
            Some(other) => Err(other),
        }
    }

    /// Takes a subtree, which keeps its path. Null if it is absent.
    pub(super) fn branch(&mut self, path: &str) -> Self {
        let value = self.take(path).unwrap_or_default();
        Self::new(self.path(path), value)
    }

    /// The value at a dotted path.
    pub(super) fn get(&self, path: &str) -> Option<&Value> {
        get(&self.value, path)
    }

    /// The full path of a field of this tree.
    pub(super) fn path(&self, field: &str) -> String {
        match (self.root.as_str(), field) {
            ("", _) => field.to_owned(),
            (root, "") => root.to_owned(),
            (root, field) if root.ends_with(' ') => format!("{root}{field}"),
            (root, field) => format!("{root}.{field}"),
        }
    }
}

/// The value at a dotted path; `None` also for null.
pub(super) fn get<'v>(value: &'v Value, path: &str) -> Option<&'v Value> {
    path.split('.')
        .try_fold(value, |value, field| value.get(field))
        .filter(|value| !value.is_null())
}

/// The non-empty string at a dotted path.
pub(super) fn text<'v>(value: &'v Value, path: &str) -> Option<&'v str> {
    get(value, path)?.as_str().filter(|text| !text.is_empty())
}

fn take(value: &mut Value, path: &str) -> Option<Value> {
    let map = value.as_object_mut()?;
    let Some((field, rest)) = path.split_once('.') else {
        return map.remove(path).filter(|value| !value.is_null());
    };
    let inner = map.get_mut(field)?;
    let taken = take(inner, rest);
    if inner.is_null() || inner.as_object().is_some_and(Map::is_empty) {
        map.remove(field);
    }
    taken
}

/// Puts a value at a dotted path and creates the objects on the way.
pub(super) fn put(map: &mut Map<String, Value>, path: &str, value: Value) {
    let Some((field, rest)) = path.split_once('.') else {
        map.insert(path.to_owned(), value);
        return;
    };
    let inner = map.entry(field).or_insert_with(|| Value::Object(Map::new()));
    if !inner.is_object() {
        *inner = Value::Object(Map::new());
    }
    if let Value::Object(inner) = inner {
        put(inner, rest, value);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_container_is_removed_with_its_last_field() {
        let mut tree = Tree::new("spec", json!({"a": {"b": {"c": 1, "d": null}}, "e": {}, "f": null}));
        assert_eq!(tree.take("a.b.c"), Some(json!(1)));
        assert_eq!(tree.take("a.b.d"), None);
        assert_eq!(tree.take("e.x"), None);
        assert_eq!(tree.take("f"), None);
        assert_eq!(tree.value, json!({}));
        assert_eq!(tree.path("a.b"), "spec.a.b");
    }

    #[test]
    fn a_value_of_another_type_stays() {
        let mut tree = Tree::new("", json!({"a": 5}));
        assert_eq!(tree.take("a.b"), None);
        assert_eq!(tree.take_text("a"), None);
        assert_eq!(tree.value, json!({"a": 5}));
    }

    #[test]
    fn a_path_is_created_on_the_way() {
        let mut map = Map::new();
        put(&mut map, "a.b", json!(1));
        put(&mut map, "a.c", json!(2));
        assert_eq!(Value::Object(map), json!({"a": {"b": 1, "c": 2}}));
    }
}
