//! Where a provider spec deviates from the types of its platform: a value of another type, an
//! unknown field.
//!
//! The types are the Go types of [`super::schema`], at all levels. A null is an absent field, as in
//! Go. The providers of bare metal and of IBM Cloud define their types themselves, so that only the
//! names of their fields are checked. The module decides nothing about an edit.

mod openstack;

use serde_json::{Map, Value};

use super::ProviderSpec;
use super::schema::{self, Field, Type};
use crate::model::distance;

/// A value that deviates from the types.
#[derive(Clone, Debug, PartialEq)]
pub enum Deviation<'v> {
    /// The value has another type.
    WrongType {
        /// The path from the provider spec, such as `blockDevices[0].ebs.volumeSize`.
        path: String,
        /// The expected type in words, such as "an integer".
        expected: &'static str,
        /// The value.
        value: &'v Value,
    },
    /// The platform does not know the field.
    Unknown {
        /// The path from the provider spec.
        path: String,
        /// A known field of a similar name, to suggest it: one that is absent, otherwise one that
        /// is present.
        similar: Option<Similar>,
    },
    /// The name of the field differs from that of another field of the object in case only.
    /// Providers that decode with Go's `encoding/json` read it as that field.
    OtherCase {
        /// The path from the provider spec.
        path: String,
        /// The name of the known field.
        field: &'static str,
    },
}

/// A known field whose name is similar to an unknown one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Similar {
    /// Its name.
    pub field: &'static str,
    /// Whether the object has it beside the unknown field, as after a merge patch with a misspelt
    /// name.
    pub is_present: bool,
}

/// The fields of the provider spec of a platform with their types; `None` if the types are not
/// known.
pub fn fields(provider_spec: ProviderSpec) -> Option<&'static [Field]> {
    if provider_spec.kind == super::openstack::PROVIDER_SPEC.kind {
        return Some(openstack::PROVIDER_SPEC);
    }
    schema::of_kind(provider_spec.kind)
}

/// A type in words, with an article.
fn in_words(type_: Type) -> &'static str {
    match type_ {
        Type::Text => "a string",
        Type::Flag | Type::OptionalFlag => "a boolean",
        Type::Number | Type::OptionalNumber => "an integer",
        Type::Quantity => "a quantity such as 16Gi",
        Type::NumberOrText => "an integer or a string",
        Type::Map => "an object with string values",
        Type::Object(_) | Type::OptionalObject(_) => "an object",
        Type::List(_) => "a list",
        Type::Json => "a value",
    }
}

/// Whether a value of a number field is a whole number that does not fit.
fn is_too_large(type_: Type, value: &Value) -> bool {
    let is_whole = value.as_f64().is_some_and(|number| number.fract() == 0.0);
    matches!(type_, Type::Number | Type::OptionalNumber) && is_whole
}

fn accepts(type_: Type, value: &Value) -> bool {
    // Go decodes whole numbers into at most 64 bits with a sign.
    let is_integer = value.is_i64();
    match type_ {
        Type::Text => value.is_string(),
        Type::Flag | Type::OptionalFlag => value.is_boolean(),
        Type::Number | Type::OptionalNumber => is_integer,
        Type::Quantity => value.is_string() || value.is_number(),
        Type::NumberOrText => value.is_string() || is_integer,
        Type::Map | Type::Object(_) | Type::OptionalObject(_) => value.is_object(),
        Type::List(_) => value.is_array(),
        Type::Json => true,
    }
}

/// The deviations of an object from its fields, at most `most` of them, in the order of the object.
pub fn deviations<'v>(provider_spec: ProviderSpec, object: &'v Map<String, Value>, most: usize) -> Vec<Deviation<'v>> {
    let mut walk = Walk {
        most,
        found: Vec::new(),
    };
    match fields(provider_spec) {
        Some(fields) => walk.object(fields, object, ""),
        None => walk.names(provider_spec.fields, object),
    }
    walk.found
}

/// Collects deviations.
struct Walk<'v> {
    most: usize,
    found: Vec<Deviation<'v>>,
}

impl<'v> Walk<'v> {
    fn add(&mut self, deviation: Deviation<'v>) {
        if self.found.len() < self.most {
            self.found.push(deviation);
        }
    }

    fn names(&mut self, fields: &'static [&'static str], object: &Map<String, Value>) {
        for name in object.keys().filter(|name| !fields.contains(&name.as_str())) {
            self.add(unknown(name.clone(), fields.iter().copied(), object, name));
        }
    }

    fn object(&mut self, fields: &'static [Field], object: &'v Map<String, Value>, path: &str) {
        for (name, value) in object {
            if self.found.len() >= self.most {
                return;
            }
            let below = || {
                if path.is_empty() {
                    name.clone()
                } else {
                    format!("{path}.{name}")
                }
            };
            match fields.iter().find(|(field, _)| field == name) {
                Some((_, type_)) => self.value(*type_, value, &below),
                None => self.add(unknown(below(), fields.iter().map(|(field, _)| *field), object, name)),
            }
        }
    }

    fn value(&mut self, type_: Type, value: &'v Value, path: &dyn Fn() -> String) {
        if value.is_null() {
            return;
        }
        if !accepts(type_, value) {
            self.add(Deviation::WrongType {
                path: path(),
                expected: if is_too_large(type_, value) {
                    "an integer of at most 64 bits"
                } else {
                    in_words(type_)
                },
                value,
            });
            return;
        }
        match (type_, value) {
            (Type::Object(fields) | Type::OptionalObject(fields), Value::Object(object)) => {
                self.object(fields, object, &path());
            }
            (Type::Map, Value::Object(object)) => {
                for (key, value) in object {
                    self.value(Type::Text, value, &|| format!("{}[{key}]", path()));
                }
            }
            (Type::List(items), Value::Array(list)) => {
                for (position, item) in list.iter().enumerate() {
                    if self.found.len() >= self.most {
                        return;
                    }
                    self.value(*items, item, &|| format!("{}[{position}]", path()));
                }
            }
            _ => {}
        }
    }
}

/// The deviation of a name that no known field has.
fn unknown<'v>(
    path: String,
    fields: impl Iterator<Item = &'static str> + Clone,
    object: &Map<String, Value>,
    name: &str,
) -> Deviation<'v> {
    let is_twice = |field: &&str| field.eq_ignore_ascii_case(name) && object.contains_key(*field);
    match fields.clone().find(is_twice) {
        Some(field) => Deviation::OtherCase { path, field },
        None => Deviation::Unknown {
            path,
            similar: most_similar(fields, object, name),
        },
    }
}

/// The known field whose name is most similar to `name`, if one is similar. One that is absent from
/// the object comes first.
fn most_similar(
    fields: impl Iterator<Item = &'static str>,
    object: &Map<String, Value>,
    name: &str,
) -> Option<Similar> {
    let similar = fields.filter_map(|field| Some((object.contains_key(field), distance(field, name)?, field)));
    let (is_present, _, field) = similar.min()?;
    Some(Similar { field, is_present })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::platforms::{ALL, aws};

    fn of(value: &Value) -> Vec<Deviation<'_>> {
        deviations(aws::PROVIDER_SPEC, value.as_object().unwrap(), 10)
    }

    #[test]
    fn the_types_have_the_fields_of_the_list() {
        let mut typed = 0;
        for spec in ALL {
            let Some(fields) = fields(*spec) else { continue };
            let names: Vec<&str> = fields.iter().map(|(name, _)| *name).collect();
            assert_eq!(names, spec.fields, "{}", spec.kind);
            typed += 1;
        }
        assert_eq!(typed, 7);
    }

    #[test]
    fn w136_a_whole_number_has_at_most_64_bits() {
        let size = |size: Value| json!({"blockDevices": [{"ebs": {"volumeSize": size}}]});
        assert_eq!(of(&size(json!(i64::MAX))), []);
        for large in [json!(u64::MAX), json!(1e19)] {
            let value = size(large);
            let [Deviation::WrongType { expected, .. }] = of(&value)[..] else {
                panic!("{value}");
            };
            assert_eq!(expected, "an integer of at most 64 bits");
        }
    }

    #[test]
    fn a_value_of_another_type_is_found_at_any_depth() {
        let value = json!({"instanceType": 5, "placement": null, "subnet": [],
            "blockDevices": [{"ebs": {"volumeSize": "120"}}, {"ebs": {"volumeSize": 1.5}}]});
        let found: Vec<(String, &str)> = of(&value)
            .into_iter()
            .map(|deviation| match deviation {
                Deviation::WrongType { path, expected, .. } => (path, expected),
                Deviation::Unknown { path, .. } => (path, "unknown"),
                Deviation::OtherCase { path, field } => (path, field),
            })
            .collect();
        let expected = [
            ("blockDevices[0].ebs.volumeSize", "an integer"),
            ("blockDevices[1].ebs.volumeSize", "an integer"),
            ("instanceType", "a string"),
            ("subnet", "an object"),
        ];
        assert_eq!(found, expected.map(|(path, text)| (path.to_owned(), text)));
    }

    #[test]
    fn w102_an_unknown_field_suggests_a_field_of_a_similar_name_also_one_that_is_present() {
        let suggestion = |value: Value| match of(&value).as_slice() {
            [Deviation::Unknown { path, similar }] => (path.clone(), similar.map(|one| (one.field, one.is_present))),
            other => panic!("{other:?}"),
        };
        let unknown = |path: &str, similar| (path.to_owned(), similar);
        assert_eq!(
            suggestion(json!({"instancetype": "m"})),
            unknown("instancetype", Some(("instanceType", false)))
        );
        assert_eq!(
            suggestion(json!({"instanceTyp": "m", "instanceType": "m"})),
            unknown("instanceTyp", Some(("instanceType", true)))
        );
        assert_eq!(
            suggestion(json!({"placement": {"regoin": "r"}})),
            unknown("placement.regoin", Some(("region", false)))
        );
        assert_eq!(suggestion(json!({"colour": 1})), unknown("colour", None));
    }

    #[test]
    fn the_number_of_deviations_is_limited() {
        let value = json!({"blockDevices": vec![json!(1); 1000], "tags": vec![json!(1); 1000]});
        assert_eq!(of(&value).len(), 10);
    }
}
