//! A valid ControlPlane: a type that cannot hold an invalid one.
//!
//! A ControlPlane describes its machines as the template of a ControlPlaneMachineSet does. So that
//! both follow the same rules, a ControlPlane is read in the form of a set. Whether an *edit* is
//! allowed is decided in `rules`, not here.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::api::kinds::CONTROL_PLANES;
use crate::api::machine_openshift_io::control_plane::{ControlPlane, DEFAULT_REPLICAS, NAME, SIZES};
use crate::api::machine_openshift_io::control_plane_machine_set as set;
use crate::api::machine_openshift_io::label;
use crate::cpms::changes::Comparison;
use crate::cpms::domains::FailureDomain;
use crate::cpms::pending_creates::recorded;
use crate::cpms::rules::{ACKNOWLEDGE as ACCEPTED_DOMAINS, TEMPLATE_PATH};
use crate::cpms::spec::{ParseContext, Template, parse as parse_set};
use crate::model::{
    FieldPath, ObjectRef, PendingCreation, Precondition, UnreadablePendingCreations, Violation, ViolationKind,
};

/// A valid ControlPlane.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// `cluster`.
    pub name: String,
    /// Namespace of the ControlPlane and of its machines.
    pub namespace: String,
    /// UID; empty for an object that was never stored.
    pub uid: String,
    /// The version from which this was parsed; empty for an object that was never stored.
    pub resource_version: String,
    /// Generation; 0 for an object that was never stored.
    pub generation: i64,
    /// Whether the deletion was requested.
    pub deleting: bool,
    /// Finalizers.
    pub finalizers: Vec<String>,
    /// Annotations.
    pub annotations: BTreeMap<String, String>,
    /// The creations that the ControlPlane records.
    pub pending_creations: Result<Vec<PendingCreation>, UnreadablePendingCreations>,
    /// The number of machines: 1, 3, 5 or 7.
    pub replicas: usize,
    /// Whether a MachineHealthCheck repairs unhealthy machines.
    pub repairs: bool,
    /// Whether the user accepts that etcd has two members while the only machine is replaced.
    pub replaces_single_machine: bool,
    /// Describes a machine.
    pub template: Arc<Template>,
    /// The failure domains, completed from the template, in order and without duplicates. Empty for
    /// a control plane without failure domains.
    pub failure_domains: Vec<FailureDomain>,
}

/// The annotation with which a user accepts the risk of replacing the only machine.
pub const ACKNOWLEDGED: &str = "capstan.dev/replace-single-machine";
/// The risk that [`ACKNOWLEDGED`] must name.
pub const RISK: &str = "etcd-has-two-members-meanwhile";

impl Spec {
    /// The key of the ControlPlane.
    pub fn object(&self) -> ObjectRef {
        CONTROL_PLANES.object(&self.namespace, &self.name)
    }

    /// What must still be true of the ControlPlane when it is written.
    pub(super) fn precondition(&self) -> Precondition {
        Precondition {
            uid: self.uid.clone(),
            resource_version: self.resource_version.clone(),
        }
    }

    /// The fields that a comparison of a machine with the template includes. An image alone does
    /// not replace a machine (decision 8).
    pub fn comparison(&self) -> Comparison {
        Comparison {
            domains: !self.failure_domains.is_empty(),
            images: false,
        }
    }
}

/// Parses a ControlPlane. `cluster` is the infrastructure name of the cluster, for the label of the
/// machines.
///
/// # Errors
/// Every violation, ordered by field.
pub fn parse(object: &ControlPlane, cluster: &str, context: &ParseContext<'_>) -> Result<Spec, Vec<Violation>> {
    let mut found = Vec::new();
    if object.metadata.name() != NAME {
        let name = Violation::new("cp-name", "metadata.name", ViolationKind::Invalid, "must be cluster");
        found.push(name.got(&json!(object.metadata.name())));
    }
    let is_stored = !object.metadata.uid().is_empty();
    if object.spec.replicas.is_none() && is_stored {
        // Only a new object has a default. Here, it could delete machines.
        let allowed = "must be set: without a number, no machine is created or deleted";
        let missing = Violation::new(REPLICAS, "spec.replicas", ViolationKind::Required, allowed);
        found.push(missing.advice("set the number of machines: 1, 3, 5 or 7"));
    }
    let replicas = object.spec.replicas.unwrap_or(DEFAULT_REPLICAS);
    found.extend(wrong_size(i64::from(replicas)));
    let json = serde_json::to_value(object).unwrap_or_default();
    // Every member of the form is read from a valid type, so that it can be decoded.
    let form: set::ControlPlaneMachineSet = serde_json::from_value(as_set(&json, cluster)).unwrap_or_default();
    let parsed = match parse_set(&form, context) {
        Ok(parsed) => parsed,
        Err(violations) => {
            found.extend(violations.into_iter().map(translated));
            found.sort();
            return Err(found);
        }
    };
    if !found.is_empty() {
        return Err(found);
    }
    let meta = &object.metadata;
    Ok(Spec {
        name: meta.name().to_owned(),
        namespace: meta.namespace.clone().unwrap_or_default(),
        uid: meta.uid().to_owned(),
        resource_version: meta.resource_version.clone().unwrap_or_default(),
        generation: meta.generation.unwrap_or_default(),
        deleting: meta.is_deleting(),
        finalizers: meta.finalizers.clone(),
        annotations: meta.annotations.clone(),
        pending_creations: recorded(meta),
        replicas: usize::try_from(replicas).unwrap_or_default(),
        repairs: object.spec.enable_autorepair.unwrap_or(true),
        replaces_single_machine: meta.annotations.get(ACKNOWLEDGED).map(String::as_str) == Some(RISK),
        template: parsed.template,
        failure_domains: parsed.failure_domains,
    })
}

/// The rule about the number of machines.
const REPLICAS: &str = "cp-replicas-odd";

/// Why a control plane may not rest at this number of machines; `None` if it may.
pub(super) fn wrong_size(replicas: i64) -> Option<Violation> {
    if SIZES.iter().any(|size| i64::from(*size) == replicas) {
        return None;
    }
    let violation = Violation::new(
        REPLICAS,
        "spec.replicas",
        ViolationKind::Invalid,
        "must be 1, 3, 5 or 7",
    );
    let advice = if replicas > 0 && replicas % 2 == 0 {
        "an even number of etcd members tolerates no more failures than the odd number below it"
    } else {
        "correct the number"
    };
    Some(violation.got(&json!(replicas)).advice(advice))
}

/// A ControlPlane in the form of an Inactive ControlPlaneMachineSet, as JSON. Values of another
/// type than the schema allows are kept, so that they are found.
pub(super) fn as_set(object: &Value, cluster: &str) -> Value {
    let spec = |field: &str| object.get("spec").and_then(|spec| spec.get(field));
    let labels = json!({(label::ROLE): "master", (label::TYPE): "master"});
    let mut machine = Map::new();
    machine.insert(
        "metadata".to_owned(),
        json!({"labels": {(label::ROLE): "master", (label::TYPE): "master", (label::CLUSTER): cluster}}),
    );
    let provider_spec = spec("providerSpec").cloned().unwrap_or_else(|| json!({}));
    machine.insert("spec".to_owned(), json!({ "providerSpec": provider_spec }));
    if let Some(domains) = spec("failureDomains").filter(|domains| !domains.is_null()) {
        machine.insert("failureDomains".to_owned(), domains.clone());
    }
    // The one annotation of the form that a rule of the template reads.
    let annotations = object.pointer("/metadata/annotations");
    let acceptance = annotations.and_then(|annotations| annotations.get(ACCEPTED_DOMAINS)?.as_str());
    let accepted: BTreeMap<&str, &str> = acceptance.map(|named| (ACCEPTED_DOMAINS, named)).into_iter().collect();
    json!({
        "apiVersion": set::API_VERSION,
        "kind": set::KIND,
        "metadata": {"name": set::NAME, "annotations": accepted},
        "spec": {
            "state": "Inactive",
            "replicas": 3,
            "selector": {"matchLabels": labels},
            "template": {"machineType": set::MACHINE_TYPE, (set::MACHINE_TYPE): machine},
        },
    })
}

/// A violation of the form of a set, with the path and the rule of a ControlPlane.
pub(super) fn translated(violation: Violation) -> Violation {
    Violation {
        path: FieldPath::from(translated_text(violation.path.as_str()).as_str()),
        rule: translated_rule(&violation.rule),
        advice: translated_text(&violation.advice),
        allowed: translated_text(&violation.allowed),
        ..violation
    }
}

/// A text about a set, with the paths of a ControlPlane.
pub(super) fn translated_text(text: &str) -> String {
    text.replace(&format!("{TEMPLATE_PATH}.spec.providerSpec"), "spec.providerSpec")
        .replace(&format!("{TEMPLATE_PATH}.failureDomains"), "spec.failureDomains")
}

/// The id of a rule of ControlPlaneMachineSets that also applies to ControlPlanes.
pub(super) fn translated_rule(id: &str) -> String {
    id.strip_prefix("cpms-")
        .map_or_else(|| id.to_owned(), |rest| format!("cp-{rest}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control_plane::samples::control_plane;

    fn parsed(object: &Value) -> Result<Spec, Vec<String>> {
        let object: ControlPlane = serde_json::from_value(object.clone()).unwrap();
        let texts = |found: Vec<Violation>| found.iter().map(ToString::to_string).collect();
        parse(&object, "ocp-x7k2p", &ParseContext::default()).map_err(texts)
    }

    #[test]
    fn a_control_plane_is_parsed_with_its_template_and_failure_domains() {
        let spec = parsed(&control_plane(5)).unwrap();
        assert_eq!((spec.replicas, spec.repairs), (5, true));
        assert_eq!(spec.failure_domains.len(), 3);
        assert_eq!(spec.template.cluster(), "ocp-x7k2p");
        assert_eq!(spec.template.provider_spec["instanceType"], "m6i.xlarge");
        let mut bare = control_plane(5);
        bare["spec"]
            .as_object_mut()
            .unwrap()
            .retain(|field, _| field == "providerSpec");
        let stored = parsed(&bare).unwrap_err().join("\n");
        assert!(stored.contains("must be set: without a number"), "{stored}");
        bare["metadata"].as_object_mut().unwrap().remove("uid");
        let spec = parsed(&bare).unwrap();
        assert_eq!((spec.replicas, spec.repairs, spec.failure_domains.len()), (1, true, 0));
    }

    #[test]
    fn every_violation_is_reported_with_the_path_and_the_rule_of_a_control_plane() {
        let mut object = control_plane(4);
        object["metadata"]["name"] = json!("other");
        object["spec"]["failureDomains"]["gcp"] = json!([{"zone": "a"}]);
        let found = parsed(&object).unwrap_err().join("\n");
        for expected in [
            "[cp-name]",
            "[cp-replicas-odd]",
            "spec.failureDomains.gcp",
            "[cp-failure-domains]",
        ] {
            assert!(found.contains(expected), "{expected}: {found}");
        }
        assert!(
            !found.contains("cpms") && !found.contains("machines_v1beta1"),
            "{found}"
        );
        let mut object = control_plane(3);
        object["spec"]["providerSpec"] = json!({});
        let found = parsed(&object).unwrap_err().join("\n");
        assert!(found.contains("spec.providerSpec.value"), "{found}");
    }

    #[test]
    fn a_control_plane_rests_at_odd_numbers_up_to_seven() {
        let allowed: Vec<i64> = (-2..12).filter(|size| wrong_size(*size).is_none()).collect();
        assert_eq!(allowed, [1, 3, 5, 7]);
    }
}
