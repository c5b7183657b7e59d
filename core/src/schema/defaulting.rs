//! Defaults: missing fields get the default of the schema, from the root down. If the default is an
//! object, its fields get their own defaults.

use serde_json::Value;

use super::node::{Additional, Schema};

impl Schema {
    /// Adds the defaults. A null that the schema does not allow counts as absent: the default
    /// replaces it, or it is removed if there is no default.
    pub fn set_defaults(&self, object: &mut Value) {
        self.drop_nulls(object);
        self.fill(object);
    }

    fn drop_nulls(&self, value: &mut Value) {
        match value {
            Value::Object(map) => {
                if map.values().any(Value::is_null) {
                    map.retain(|name, value| {
                        let dropped = |schema: &Schema| !schema.nullable && schema.default.is_none();
                        !(value.is_null() && self.field(name).is_some_and(dropped))
                    });
                }
                for (name, value) in map
                    .iter_mut()
                    .filter(|(_, value)| value.is_object() || value.is_array())
                {
                    if let Some(schema) = self.field(name) {
                        schema.drop_nulls(value);
                    }
                }
            }
            Value::Array(list) => {
                if let Some(schema) = &self.items {
                    list.iter_mut().for_each(|item| schema.drop_nulls(item));
                }
            }
            _ => {}
        }
    }

    fn fill(&self, value: &mut Value) {
        if !self.has_defaults {
            return;
        }
        match value {
            Value::Object(map) => {
                for (name, schema) in &self.properties {
                    let Some(default) = &schema.default else { continue };
                    let missing = match map.get(name) {
                        None => true,
                        Some(value) => value.is_null() && !schema.nullable,
                    };
                    if missing {
                        map.insert(name.clone(), default.clone());
                    }
                }
                for (name, value) in map.iter_mut().filter(|(_, value)| !value.is_string()) {
                    if let Some(schema) = self.properties.get(name) {
                        schema.fill(value);
                    } else if let Some(Additional::Schema(schema)) = &self.additional {
                        schema.fill_item(value);
                    }
                }
            }
            Value::Array(list) => {
                if let Some(schema) = &self.items {
                    list.iter_mut().for_each(|item| schema.fill_item(item));
                }
            }
            _ => {}
        }
    }

    fn fill_item(&self, value: &mut Value) {
        if let (true, false, Some(default)) = (value.is_null(), self.nullable, &self.default) {
            *value = default.clone();
        }
        self.fill(value);
    }
}
