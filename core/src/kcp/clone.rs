//! The infrastructure machine of a new machine: a clone of the template to which the control plane
//! refers.
//!
//! The kind of the template is unknown here. Only the fields of the contract of Cluster API are
//! read: `spec.template.spec` and `spec.template.metadata`.

use serde_json::{Map, Value, json};

use super::create::owner;
use super::state::State;
use crate::api::cluster_x_k8s_io::annotation::{CLONED_FROM_GROUP_KIND, CLONED_FROM_NAME};
use crate::api::cluster_x_k8s_io::control_plane::Machine;

/// The clone of a template for a machine. It has the name and the labels of the machine, and names
/// the template in annotations, with which the machine is compared later.
///
/// # Errors
/// The template has no `spec.template.spec`, or the control plane refers to no template.
pub fn clone(state: &State, machine: &Machine, template: &Value) -> Result<Value, String> {
    let reference = &state.control_plane.spec.machine_template.spec.infrastructure_ref;
    let Some(kind) = reference.kind.strip_suffix("Template").filter(|kind| !kind.is_empty()) else {
        return Err(format!(
            "the kind {:?} of the infrastructure must end with Template",
            reference.kind
        ));
    };
    let spec = template.pointer("/spec/template/spec").filter(|spec| spec.is_object());
    let Some(spec) = spec else {
        return Err(format!(
            "{} {} must have spec.template.spec",
            reference.kind, reference.name
        ));
    };
    let of_template = |field: &str| {
        let values = template.pointer(&format!("/spec/template/metadata/{field}"));
        values.and_then(Value::as_object).cloned().unwrap_or_default()
    };
    let mut labels = of_template("labels");
    labels.extend(text(&machine.metadata.labels));
    let mut annotations = of_template("annotations");
    annotations.extend(text(&state.control_plane.spec.machine_template.metadata.annotations));
    annotations.insert(CLONED_FROM_NAME.to_owned(), json!(reference.name));
    let group_kind = format!("{}.{}", reference.kind, reference.api_group);
    annotations.insert(CLONED_FROM_GROUP_KIND.to_owned(), json!(group_kind));
    let api_version = template.get("apiVersion").cloned().unwrap_or_default();
    Ok(json!({
        "apiVersion": api_version, "kind": kind,
        "metadata": {
            "name": machine.metadata.name(), "namespace": state.namespace(), "labels": labels,
            "annotations": annotations, "ownerReferences": [owner(state, None)],
        },
        "spec": spec,
    }))
}

fn text(values: &std::collections::BTreeMap<String, String>) -> Map<String, Value> {
    values.iter().map(|(key, value)| (key.clone(), json!(value))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kcp::action::Action;
    use crate::kcp::observed::Observed;
    use crate::kcp::plan::plan;
    use crate::kcp::samples::{World, now};

    fn template() -> Value {
        json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "DevMachineTemplate",
            "metadata": {"name": "t1", "namespace": "ns", "labels": {"of": "the template itself"}},
            "spec": {"template": {
                "metadata": {"labels": {"a": "b", "cluster.x-k8s.io/cluster-name": "other"}, "annotations": {"c": "d"}},
                "spec": {"backend": {"inMemory": {}}},
            }},
        })
    }

    /// A control plane that creates its fourth machine, and that machine.
    fn created() -> (World, Machine) {
        let mut world = World::new("abc");
        world.spec()["replicas"] = json!(5);
        world.spec()["machineTemplate"]["metadata"] = json!({"annotations": {"e": "f"}});
        let state = world.state();
        let plan = plan(&state, now());
        let Action::Create { machine, .. } = &plan.steps[0].action else {
            panic!("{plan:?}");
        };
        let machine = machine.as_ref().clone();
        (world, machine)
    }

    #[test]
    fn a_clone_has_the_spec_of_the_template_and_the_name_and_labels_of_the_machine() {
        let (world, machine) = created();
        let clone = clone(&world.state(), &machine, &template()).unwrap();
        assert_eq!(clone["kind"], "DevMachine");
        assert_eq!(clone["spec"], json!({"backend": {"inMemory": {}}}));
        let metadata = &clone["metadata"];
        assert_eq!(metadata["name"], machine.metadata.name());
        assert_eq!(metadata["labels"]["a"], "b");
        assert_eq!(
            metadata["labels"]["cluster.x-k8s.io/cluster-name"], "c",
            "the label of the machine"
        );
        assert_eq!(metadata["labels"].get("of"), None);
        assert_eq!(
            (&metadata["annotations"]["c"], &metadata["annotations"]["e"]),
            (&json!("d"), &json!("f"))
        );
        let owner = &metadata["ownerReferences"][0];
        assert_eq!((&owner["uid"], owner.get("controller")), (&json!("cp-uid"), None));
    }

    #[test]
    fn a_machine_with_its_clone_and_its_configuration_is_up_to_date() {
        let (world, mut machine) = created();
        let state = world.state();
        let plan = plan(&state, now());
        let Action::Create { config, .. } = &plan.steps[0].action else {
            panic!("{plan:?}");
        };
        machine.metadata.uid = Some(String::from("new"));
        let mut objects = world.objects();
        objects.push(clone(&state, &machine, &template()).unwrap());
        objects.push(serde_json::to_value(config).unwrap());
        objects.push(serde_json::to_value(&machine).unwrap());
        let state = State::observe(&Observed::of_objects(&objects).unwrap(), now());
        let new = state.machine(machine.metadata.name()).unwrap();
        assert!(new.is_current(), "{:?}", new.differences);
        // Another template makes it outdated.
        let mut control_plane = world;
        control_plane.spec()["machineTemplate"]["spec"]["infrastructureRef"]["name"] = json!("t2");
        objects[0] = control_plane.control_plane;
        let state = State::observe(&Observed::of_objects(&objects).unwrap(), now());
        assert!(!state.machine(machine.metadata.name()).unwrap().is_current());
    }

    #[test]
    fn an_object_that_is_no_template_is_refused() {
        let (mut world, machine) = created();
        let refused = clone(&world.state(), &machine, &json!({"spec": {}})).unwrap_err();
        assert_eq!(refused, "DevMachineTemplate t1 must have spec.template.spec");
        world.spec()["machineTemplate"]["spec"]["infrastructureRef"]["kind"] = json!("DevMachine");
        assert!(
            clone(&world.state(), &machine, &template())
                .unwrap_err()
                .contains("must end with Template")
        );
    }
}
