//! Carries along what the other API cannot hold, in one annotation on the converted object.
//!
//! Each section of the annotation has a source value, and a hash of the converted value that it
//! describes. The source value counts on the way back only while the hash fits, so a change of the
//! converted object always wins (decision 25).
//!
//! Must never: restore a value for an object that has changed since.

use serde_json::{Map, Value};

use crate::model::hex_hash;

/// The annotation.
pub const CARRIED: &str = "capstan.dev/conversion-data";

/// Digits of the hash. They detect a change; they do not protect against an attack, because a user
/// who can write the annotation can write the object as well.
const DIGITS: usize = 16;

/// The sections of the annotation, by name.
#[derive(Clone, Debug, Default)]
pub(super) struct Carried {
    sections: Map<String, Value>,
}

impl Carried {
    /// Takes the annotation out of the annotations of an object. An annotation that cannot be read
    /// is ignored.
    pub(super) fn take(annotations: &mut Map<String, Value>) -> Self {
        let text = annotations.remove(CARRIED);
        let text = text.as_ref().and_then(Value::as_str).unwrap_or_default();
        let sections = serde_json::from_str(text).unwrap_or_default();
        Self { sections }
    }

    /// The source value of a section, if the hash fits the converted value.
    pub(super) fn original(&self, section: &str, converted: &Value) -> Option<&Value> {
        let section = self.sections.get(section)?;
        let fits = section.get("hash").and_then(Value::as_str) == Some(hex_hash(converted, DIGITS).as_str());
        section.get("value").filter(|_| fits)
    }

    /// Adds the source value of a section, with the hash of the converted value.
    pub(super) fn add(&mut self, section: &str, original: Value, converted: &Value) {
        let mut entry = Map::new();
        entry.insert(String::from("hash"), hex_hash(converted, DIGITS).into());
        entry.insert(String::from("value"), original);
        self.sections.insert(section.to_owned(), entry.into());
    }

    /// Writes the annotation, if there is a section.
    pub(super) fn write(self, annotations: &mut Map<String, Value>) {
        if !self.sections.is_empty() {
            let text = Value::Object(self.sections).to_string();
            annotations.insert(CARRIED.to_owned(), text.into());
        }
    }
}
