//! Sets of fields, in the format of `fieldsV1`.

use std::collections::BTreeMap;

use capstan_core::schema::Schema;
use serde_json::{Map, Value};

/// A set of fields: whether this place is in the set, and the sets below this place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Fields {
    pub(super) here: bool,
    /// By path element: `f:name`, `k:{"type":"Ready"}`, `v:"x"`.
    pub(super) below: BTreeMap<String, Fields>,
}

impl Fields {
    pub(super) fn is_empty(&self) -> bool {
        !self.here && self.below.values().all(Self::is_empty)
    }

    pub(super) fn parse(value: &Value) -> Self {
        let Some(map) = value.as_object() else {
            return Self::default();
        };
        let mut fields = Self::default();
        for (element, value) in map {
            if element == "." {
                fields.here = true;
            } else {
                let mut child = Self::parse(value);
                // A leaf is an empty map.
                if value.as_object().is_some_and(Map::is_empty) {
                    child.here = true;
                }
                fields.below.insert(element.clone(), child);
            }
        }
        fields
    }

    pub(super) fn to_value(&self) -> Value {
        let mut map = Map::new();
        if self.here && self.below.values().any(|child| !child.is_empty()) {
            map.insert(".".into(), Value::Object(Map::new()));
        }
        for (element, child) in self.below.iter().filter(|(_, child)| !child.is_empty()) {
            map.insert(element.clone(), child.to_value());
        }
        map.into()
    }

    pub(super) fn child(&mut self, element: String) -> &mut Self {
        self.below.entry(element).or_default()
    }

    pub(super) fn union(&self, other: &Self) -> Self {
        let mut sum = self.clone();
        sum.here |= other.here;
        for (element, child) in &other.below {
            let entry = sum.below.entry(element.clone()).or_default();
            *entry = entry.union(child);
        }
        sum
    }

    pub(super) fn difference(&self, other: &Self) -> Self {
        let below = self.below.iter().map(|(element, child)| {
            let rest = other
                .below
                .get(element)
                .map_or_else(|| child.clone(), |other| child.difference(other));
            (element.clone(), rest)
        });
        Self {
            here: self.here && !other.here,
            below: below.filter(|(_, child)| !child.is_empty()).collect(),
        }
    }

    pub(super) fn intersection(&self, other: &Self) -> Self {
        let below = self.below.iter().filter_map(|(element, child)| {
            let both = child.intersection(other.below.get(element)?);
            (!both.is_empty()).then(|| (element.clone(), both))
        });
        Self {
            here: self.here && other.here,
            below: below.collect(),
        }
    }

    /// Removes a field and what is below it.
    pub(super) fn forget(&mut self, path: &[&str]) {
        let Some((first, rest)) = path.split_first() else {
            return;
        };
        let element = format!("f:{first}");
        if rest.is_empty() {
            self.below.remove(&element);
        } else if let Some(child) = self.below.get_mut(&element) {
            child.forget(rest);
        }
    }

    /// Removes a field, and keeps what is below it.
    pub(super) fn forget_itself(&mut self, path: &[&str]) {
        let Some((first, rest)) = path.split_first() else {
            self.here = false;
            return;
        };
        if let Some(child) = self.below.get_mut(&format!("f:{first}")) {
            child.forget_itself(rest);
        }
    }

    /// The paths of all places in the set, in the format of messages.
    pub(super) fn paths(&self) -> Vec<String> {
        let mut found = Vec::new();
        self.collect("", &mut found);
        found
    }

    fn collect(&self, prefix: &str, found: &mut Vec<String>) {
        if self.here && !prefix.is_empty() {
            found.push(prefix.to_owned());
        }
        for (element, child) in &self.below {
            let step = match element.split_once(':') {
                Some(("f", name)) => format!(".{name}"),
                Some((_, key)) => format!("[{key}]"),
                None => element.clone(),
            };
            child.collect(&format!("{prefix}{step}"), found);
        }
    }
}

/// The parts of a value that can be owned separately.
pub(super) enum Parts<'v> {
    /// None: the value is owned as a whole.
    Whole,
    /// The fields of an object.
    Object(&'v Map<String, Value>),
    /// The items of a list, with the path element that identifies each.
    List(Vec<(String, &'v Value)>),
}

/// The parts of a value. Without a schema, each field of an object is a part, and a list is owned
/// as a whole.
pub(super) fn parts<'v>(schema: &Place<'_>, value: &'v Value) -> Parts<'v> {
    match value {
        Value::Object(map) if !schema.is_atomic() => Parts::Object(map),
        Value::Array(list) => match schema.list() {
            ListKind::Set => Parts::List(list.iter().map(|item| (format!("v:{item}"), item)).collect()),
            ListKind::Keys(keys) => {
                let key = |item: &Value| {
                    let entries = keys
                        .iter()
                        .filter_map(|key| Some((key.clone(), item.get(key)?.clone())));
                    format!("k:{}", Value::Object(entries.collect()))
                };
                Parts::List(list.iter().map(|item| (key(item), item)).collect())
            }
            ListKind::Atomic => Parts::Whole,
        },
        _ => Parts::Whole,
    }
}

/// A place in an object, with its schema if it is known. `metadata` has a schema of its own.
#[derive(Clone, Copy)]
pub(super) enum Place<'s> {
    Root(&'s Schema),
    Metadata,
    /// `finalizers`.
    Set,
    /// `ownerReferences`.
    Owners,
    /// An item of `ownerReferences`.
    Owner,
    Known(&'s Schema),
    Unknown,
}

/// How the items of a list are identified.
pub(super) enum ListKind {
    Atomic,
    Set,
    Keys(Vec<String>),
}

impl<'s> Place<'s> {
    pub(super) fn field(self, name: &str) -> Place<'s> {
        match self {
            Self::Root(_) if name == "metadata" => Self::Metadata,
            Self::Metadata if name == "finalizers" => Self::Set,
            Self::Metadata if name == "ownerReferences" => Self::Owners,
            Self::Root(schema) | Self::Known(schema) => schema.child(name).map_or(Self::Unknown, Self::Known),
            _ => Self::Unknown,
        }
    }

    pub(super) fn item(self) -> Place<'s> {
        match self {
            Self::Known(schema) => schema.item().map_or(Self::Unknown, Self::Known),
            Self::Owners => Self::Owner,
            _ => Self::Unknown,
        }
    }

    /// Whether the schema names the field. A field that it does not name is a key of a map, which
    /// is owned by itself.
    pub(super) fn names(self, field: &str) -> bool {
        match self {
            Self::Root(schema) => schema.names(field) || matches!(field, "metadata" | "apiVersion" | "kind"),
            Self::Known(schema) => schema.names(field),
            Self::Metadata => true,
            _ => false,
        }
    }

    fn is_atomic(self) -> bool {
        match self {
            Self::Known(schema) => schema.is_atomic(),
            Self::Owner => true,
            _ => false,
        }
    }

    fn list(self) -> ListKind {
        match self {
            Self::Set => ListKind::Set,
            Self::Owners => ListKind::Keys(vec!["uid".to_owned()]),
            Self::Known(schema) if schema.is_set() => ListKind::Set,
            Self::Known(schema) => match schema.keys() {
                Some(keys) => ListKind::Keys(keys.to_vec()),
                None => ListKind::Atomic,
            },
            _ => ListKind::Atomic,
        }
    }
}

/// The fields of an applied configuration.
pub(super) fn of_value(schema: &Schema, value: &Value) -> Fields {
    let mut fields = Fields::default();
    collect(Place::Root(schema), value, &mut fields);
    fields.here = false;
    fields
}

pub(super) fn collect(place: Place<'_>, value: &Value, fields: &mut Fields) {
    match parts(&place, value) {
        Parts::Whole => fields.here = true,
        Parts::Object(map) => {
            for (name, value) in map {
                let child = fields.child(format!("f:{name}"));
                collect(place.field(name), value, child);
                let empty = value.is_null() || value.as_object().is_some_and(Map::is_empty);
                if empty || !place.names(name) {
                    child.here = true;
                }
            }
        }
        Parts::List(items) => {
            for (key, value) in items {
                let child = fields.child(key);
                collect(place.item(), value, child);
                child.here = true;
            }
        }
    }
}
