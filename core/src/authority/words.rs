//! Keeps the words of a stored object of the Machine API.
//!
//! A user, an installer, or a ControlPlaneMachineSet describes a machine with fields that mean the
//! same as absent ones. The conversion writes none of these. A mirror keeps them: the one who wrote
//! an object compares it with what is stored.
//!
//! Must never: keep a field that has another meaning than the wanted one.

use serde_json::{Map, Value};

/// The fields of which each is kept as it is stored, if it means the same.
const OF_SPEC: &str = "/spec";
/// The same in a MachineSet.
const OF_TEMPLATE: &str = "/spec/template/spec";

/// The spec of a wanted object, with the fields of the stored one that mean the same.
/// `normal_stored` and `normal_wanted` are the normal forms of both objects.
pub(super) fn keep(wanted: &Value, stored: &Value, normal_wanted: &Value, normal_stored: &Value) -> Value {
    let mut merged = wanted.clone();
    for at in [OF_TEMPLATE, OF_SPEC] {
        let fields = |object: &Value| {
            object
                .pointer(at)
                .and_then(Value::as_object)
                .cloned()
                .unwrap_or_default()
        };
        let (stored, normal_wanted, normal_stored) = (fields(stored), fields(normal_wanted), fields(normal_stored));
        let Some(Value::Object(merged)) = merged.pointer_mut(at) else {
            continue;
        };
        let names: Vec<String> = merged.keys().chain(stored.keys()).cloned().collect();
        let is_same = |name: &String| normal_wanted.get(name) == normal_stored.get(name);
        for name in names.iter().filter(|name| is_same(name)) {
            put(merged, name, stored.get(name));
        }
    }
    merged.get("spec").cloned().unwrap_or_default()
}

fn put(fields: &mut Map<String, Value>, name: &str, value: Option<&Value>) {
    match value {
        Some(value) => fields.insert(name.to_owned(), value.clone()),
        None => fields.remove(name),
    };
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_field_that_means_the_same_stays_and_another_one_is_changed() {
        let machine = |id: &str, iops: Value| json!({"spec": {"providerID": id, "providerSpec": {"value": {"type": "a", "iops": iops}}}});
        let normal = |id: &str| json!({"spec": {"providerID": id, "providerSpec": {"value": {"type": "a"}}}});
        let (wanted, stored) = (machine("new", Value::Null), machine("", json!(0)));
        let merged = keep(&wanted, &stored, &normal("new"), &json!({"spec": normal("")["spec"]}));
        assert_eq!(merged, machine("new", json!(0))["spec"]);
        // A field that only the wanted object has, and that means nothing, is left out.
        let wanted = json!({"spec": {"metadata": {}, "x": 1}});
        let normal = json!({"spec": {"x": 1}});
        let merged = keep(&wanted, &json!({"spec": {"x": 0}}), &normal, &json!({"spec": {"x": 0}}));
        assert_eq!(merged, json!({"x": 1}));
    }

    #[test]
    fn a_field_of_the_template_of_a_machine_set_stays_although_the_replicas_change() {
        let set = |replicas: u64, iops: Value| json!({"spec": {"replicas": replicas, "template": {"spec": {"providerSpec": {"iops": iops}, "taints": []}}}});
        let normal = |replicas: u64, changed: bool| json!({"spec": {"replicas": replicas, "template": {"spec": {"providerSpec": {}, "changed": changed}}}});
        let merged = keep(
            &set(3, Value::Null),
            &set(2, json!(0)),
            &normal(3, true),
            &normal(2, false),
        );
        assert_eq!(merged, set(3, json!(0))["spec"]);
    }
}
