//! Validation of an object, in the words of the API server.

use serde_json::{Number, Value};

use super::correlate::{Pair, Stored};
use super::node::{Additional, Bound, Schema, Type};
use super::trail::Trail;
use super::{format, lists, rules};
use crate::model::{NO_FIELD, Violation, ViolationKind, sort_violations};

impl Schema {
    /// The violations of a create or, with an `old` object, of an update, ordered by path. Both
    /// objects have their defaults and are pruned.
    ///
    /// A value that an update leaves unchanged gives no violation if its old value is known. CEL
    /// rules are not evaluated while values have wrong types or lengths, are missing, or are not
    /// supported. In that case the last violation says this.
    pub fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<Violation> {
        self.judge(new, old, Stored::Unknown)
    }

    /// The violations of an object whose old object was validated before it was stored, and that
    /// differs from it only in the fields `touched`. Other fields are not validated.
    pub fn validate_over(&self, new: &Value, stored: &Value, touched: &[String]) -> Vec<Violation> {
        self.judge(new, Some(stored), Stored::Except(touched))
    }

    fn judge(&self, new: &Value, old: Option<&Value>, stored: Stored<'_>) -> Vec<Violation> {
        let root = Trail::ROOT;
        let schema = self;
        let pair = old.map(|old| Pair {
            schema,
            new,
            old,
            stored,
        });
        let mut found = self.check_ratcheted(new, pair, &root);
        let mut twice = Vec::new();
        lists::duplicates(self, new, &root, &mut twice);
        if let (false, Some(old)) = (twice.is_empty(), old) {
            let mut before = Vec::new();
            lists::duplicates(self, old, &root, &mut before);
            if !before.is_empty() {
                twice.clear();
            }
        }
        found.extend(twice);
        if self.has_rules {
            if found.iter().any(blocks_rules) {
                found.push(
                    Violation::new(
                        "schema-incomplete",
                        NO_FIELD,
                        ViolationKind::Invalid,
                        "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation",
                    )
                    .got(&Value::Null),
                );
            } else {
                found.extend(rules::judge(self, new, old, stored));
            }
        }
        sort_violations(&mut found);
        found
    }

    /// The violations of a value, or none for a value that the update leaves unchanged.
    fn check_ratcheted(&self, value: &Value, pair: Option<Pair<'_>>, path: &Trail<'_>) -> Vec<Violation> {
        if pair.is_some_and(Pair::ratchets) {
            return Vec::new();
        }
        self.check(value, pair, path)
    }

    pub(super) fn check(&self, value: &Value, pair: Option<Pair<'_>>, path: &Trail<'_>) -> Vec<Violation> {
        let mut check = Check {
            schema: self,
            path,
            pair,
            found: Vec::new(),
        };
        check.type_of(value);
        if !value.is_null() {
            check.combinations(value);
        }
        match value {
            Value::String(text) => check.string(text, value),
            Value::Number(number) => check.number(number, value),
            Value::Array(list) => check.list(list),
            _ => {}
        }
        check.listed(value);
        if let Value::Object(map) = value {
            check.object(map);
        }
        check.found
    }
}

/// Whether the API server evaluates no rule after this violation.
fn blocks_rules(violation: &Violation) -> bool {
    matches!(
        violation.kind,
        ViolationKind::NotSupported
            | ViolationKind::Required
            | ViolationKind::TooLong
            | ViolationKind::TooMany
            | ViolationKind::TypeInvalid
    )
}

struct Check<'s, 'p> {
    schema: &'s Schema,
    path: &'p Trail<'p>,
    pair: Option<Pair<'p>>,
    found: Vec<Violation>,
}

/// The JSON type and the Go format of a value. A float without a fraction is a number.
fn type_of(value: &Value) -> (Option<Type>, &'static str) {
    match value {
        Value::Null => (None, ""),
        Value::Bool(_) => (Some(Type::Boolean), ""),
        Value::String(_) => (Some(Type::String), ""),
        Value::Array(_) => (Some(Type::Array), ""),
        Value::Object(_) => (Some(Type::Object), ""),
        Value::Number(number) if number.is_i64() => (Some(Type::Integer), "int64"),
        Value::Number(_) => (Some(Type::Number), "float64"),
    }
}

/// Whether a number is an integer, and small enough to be exact.
fn is_whole(value: &Value) -> bool {
    const EXACT: f64 = 9_007_199_254_740_991.0;
    value
        .as_f64()
        .is_some_and(|number| number.fract() == 0.0 && number.abs() <= EXACT)
}

impl Check<'_, '_> {
    fn deny(&mut self, rule: &str, kind: ViolationKind, got: Option<&Value>, allowed: impl Into<String>) {
        let mut violation = Violation::new(rule, self.path.path(), kind, allowed);
        if let Some(got) = got {
            violation = violation.got(got);
        }
        self.found.push(violation);
    }

    /// Adds a violation that the API server reports without a field.
    fn deny_without_field(&mut self, rule: &str, allowed: String) {
        let violation = Violation::new(rule, NO_FIELD, ViolationKind::Invalid, allowed);
        self.found.push(violation.got(&Value::from("")));
    }

    fn wrong_type(&mut self, wanted: &str, is: &str) {
        let allowed = format!("{} in body must be of type {wanted}: {is:?}", self.path);
        self.deny(
            "schema-type",
            ViolationKind::TypeInvalid,
            Some(&Value::from(is)),
            allowed,
        );
    }

    fn type_of(&mut self, value: &Value) {
        let schema = self.schema;
        if schema.types.is_empty() && schema.format.is_none() {
            return;
        }
        let (Some(is), format) = type_of(value) else {
            if !schema.types.is_empty() && !schema.nullable {
                self.wrong_type(&schema.type_names(), "null");
            }
            return;
        };
        let whole = is == Type::Number && is_whole(value) && schema.has_type(Type::Integer);
        let widened = is == Type::Integer && schema.has_type(Type::Number);
        let fits = schema.has_type(is) || whole || widened;
        let textual = matches!(is, Type::String | Type::Array);
        if let Some(wanted) = &schema.format {
            if !textual && !fits && wanted != format {
                self.wrong_type(wanted, format);
                return;
            }
            if textual && !schema.has_type(Type::Number) && !schema.has_type(Type::Integer) {
                // The format decides.
                return;
            }
        }
        if !fits {
            self.wrong_type(&schema.type_names(), is.as_str());
        }
    }

    fn string(&mut self, text: &str, value: &Value) {
        let schema = self.schema;
        let path = self.path;
        let length = text.chars().count() as u64;
        if let Some(most) = schema.max_length.filter(|most| length > *most) {
            let unit = if most == 1 { "byte" } else { "bytes" };
            let allowed = format!("may not be more than {most} {unit}");
            self.deny("schema-length", ViolationKind::TooLong, None, allowed);
        } else if let Some(least) = schema.min_length.filter(|least| length < *least) {
            let allowed = format!("{path} in body should be at least {least} chars long");
            self.deny("schema-length", ViolationKind::Invalid, Some(value), allowed);
        } else if let Some(pattern) = schema.pattern.as_ref().filter(|pattern| !pattern.is_match(text)) {
            let allowed = format!("{path} in body should match '{pattern}'");
            self.deny("schema-pattern", ViolationKind::Invalid, Some(value), allowed);
        }
        if let Some(format) = schema.format.as_ref().filter(|format| !format::holds(format, text)) {
            let allowed = format!("{path} in body must be of type {format}: {text:?}");
            self.deny("schema-format", ViolationKind::TypeInvalid, Some(value), allowed);
        }
    }

    fn number(&mut self, number: &Number, value: &Value) {
        let schema = self.schema;
        let path = self.path;
        if let [Type::Integer] = schema.types.as_slice() {
            let known = number.as_i64().or_else(|| whole(number));
            let fits = match schema.format.as_deref() {
                Some("int32") => known.is_some_and(|number| i32::try_from(number).is_ok()),
                _ => known.is_some(),
            };
            if !fits {
                let format = match &schema.format {
                    Some(format) => format!("with format {format}"),
                    None => String::from("(default format)"),
                };
                self.deny_without_field(
                    "schema-range",
                    format!("Checked value must be of type integer {format} in {path}"),
                );
            }
        }
        let data = number.as_f64().unwrap_or_default();
        if let Some(factor) = schema
            .multiple_of
            .filter(|factor| *factor > 0.0 && (data / factor).fract() != 0.0)
        {
            let allowed = format!("{path} in body should be a multiple of {factor}");
            self.deny("schema-range", ViolationKind::Invalid, Some(value), allowed);
        }
        // An integer is compared with the integer part of a bound.
        let bound = |bound: Option<Bound>| {
            bound.map(|bound| Bound {
                value: if number.is_i64() {
                    bound.value.trunc()
                } else {
                    bound.value
                },
                ..bound
            })
        };
        if let Some(bound) = bound(schema.minimum).filter(|bound| bound.is_above(data)) {
            let than = if bound.exclusive {
                "greater than"
            } else {
                "greater than or equal to"
            };
            let allowed = format!("{path} in body should be {than} {}", bound.value);
            self.deny("schema-range", ViolationKind::Invalid, Some(value), allowed);
        }
        if let Some(bound) = bound(schema.maximum).filter(|bound| bound.is_below(data)) {
            let than = if bound.exclusive {
                "less than"
            } else {
                "less than or equal to"
            };
            let allowed = format!("{path} in body should be {than} {}", bound.value);
            self.deny("schema-range", ViolationKind::Invalid, Some(value), allowed);
        }
    }

    fn list(&mut self, list: &[Value]) {
        let schema = self.schema;
        let path = self.path;
        if let Some(items) = schema.items.as_deref() {
            for (index, item) in list.iter().enumerate() {
                let pair = self.pair.and_then(|pair| pair.item(index));
                self.found.extend(items.check_ratcheted(item, pair, &path.index(index)));
            }
        }
        let size = list.len() as u64;
        if let Some(least) = schema.min_items.filter(|least| size < *least) {
            let allowed = format!("{path} in body should have at least {least} items");
            self.deny(
                "schema-length",
                ViolationKind::Invalid,
                Some(&Value::from(size)),
                allowed,
            );
        }
        if let Some(most) = schema.max_items.filter(|most| size > *most) {
            self.too_many(size, most);
        }
    }

    fn too_many(&mut self, size: u64, most: u64) {
        let unit = if most == 1 { "item" } else { "items" };
        let allowed = format!("must have at most {most} {unit}");
        self.deny(
            "schema-length",
            ViolationKind::TooMany,
            Some(&Value::from(size)),
            allowed,
        );
    }

    fn listed(&mut self, value: &Value) {
        let allowed = &self.schema.allowed;
        if allowed.is_empty() || allowed.iter().any(|allowed| same(allowed, value)) {
            return;
        }
        let quoted: Vec<String> = allowed
            .iter()
            .map(|value| match value {
                Value::String(text) => format!("{text:?}"),
                other => format!("{:?}", other.to_string()),
            })
            .collect();
        let allowed = format!("supported values: {}", quoted.join(", "));
        self.deny("schema-enum", ViolationKind::NotSupported, Some(value), allowed);
    }

    fn object(&mut self, map: &serde_json::Map<String, Value>) {
        let schema = self.schema;
        let path = self.path;
        let size = map.len() as u64;
        if let Some(least) = schema.min_properties.filter(|least| size < *least) {
            let allowed = format!("{path} in body should have at least {least} properties");
            self.deny(
                "schema-length",
                ViolationKind::Invalid,
                Some(&Value::from(size)),
                allowed,
            );
        }
        if let Some(most) = schema.max_properties.filter(|most| size > *most) {
            self.too_many(size, most);
        }
        for (name, value) in map {
            let field = match (schema.properties.get(name), &schema.additional) {
                (Some(field), _) => field,
                (None, Some(Additional::Schema(field))) => field,
                _ => continue,
            };
            // A change of type is invisible: both objects were converted to the version of the
            // schema.
            let type_meta = path.is_root() && (name == "kind" || name == "apiVersion");
            let pair = self.pair.filter(|_| !type_meta).and_then(|pair| pair.field(name));
            self.found.extend(field.check_ratcheted(value, pair, &path.child(name)));
        }
        for name in schema.required.iter().filter(|name| !map.contains_key(*name)) {
            let path = path.child(name).path();
            self.found
                .push(Violation::new("schema-required", path, ViolationKind::Required, ""));
        }
    }

    fn combinations(&mut self, value: &Value) {
        let (schema, path, pair) = (self.schema, self.path, self.pair);
        let results = |members: &[Schema]| -> Vec<Vec<Violation>> {
            members.iter().map(|member| member.check(value, pair, path)).collect()
        };
        let best = |results: Vec<Vec<Violation>>| results.into_iter().min_by_key(Vec::len).unwrap_or_default();
        if !schema.any_of.is_empty() {
            let results = results(&schema.any_of);
            if !results.iter().any(Vec::is_empty) {
                self.deny_without_field(
                    "schema-any-of",
                    format!("{:?} must validate at least one schema (anyOf)", path.path().as_str()),
                );
                self.found.extend(best(results));
            }
        }
        if !schema.one_of.is_empty() {
            let results = results(&schema.one_of);
            let valid = results.iter().filter(|result| result.is_empty()).count();
            if valid != 1 {
                let found = match valid {
                    0 => String::from("Found none valid"),
                    valid => format!("Found {valid} valid alternatives"),
                };
                let allowed = format!(
                    "{:?} must validate one and only one schema (oneOf). {found}",
                    path.path().as_str()
                );
                self.deny_without_field("schema-one-of", allowed);
                if valid == 0 {
                    self.found.extend(best(results));
                }
            }
        }
        if !schema.all_of.is_empty() {
            let results = results(&schema.all_of);
            let valid = results.iter().filter(|result| result.is_empty()).count();
            if valid != results.len() {
                let none = if valid == 0 { ". None validated" } else { "" };
                self.deny_without_field(
                    "schema-all-of",
                    format!("{:?} must validate all the schemas (allOf){none}", path.path().as_str()),
                );
            }
            self.found.extend(results.into_iter().flatten());
        }
        if schema
            .not
            .as_ref()
            .is_some_and(|not| not.check(value, pair, path).is_empty())
        {
            self.deny_without_field(
                "schema-not",
                format!("{:?} must not validate the schema (not)", path.path().as_str()),
            );
        }
    }
}

/// The integer value of a number without a fraction.
fn whole(number: &Number) -> Option<i64> {
    let number = number.as_f64()?;
    // A greater number would saturate in the conversion.
    (number.fract() == 0.0 && number.abs() < 9.2e18).then_some(number as i64)
}

/// Equality in an enum: the API server truncates numbers, so that 3 equals 3.0 and 3.5.
fn same(allowed: &Value, value: &Value) -> bool {
    match (allowed, value) {
        (Value::Null, Value::Null) => false,
        (Value::Number(allowed), Value::Number(value)) if allowed.is_i64() => {
            allowed.as_f64() == value.as_f64().map(f64::trunc)
        }
        (Value::Number(allowed), Value::Number(value)) => allowed.as_f64() == value.as_f64(),
        (allowed, value) => allowed == value,
    }
}
