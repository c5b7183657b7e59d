//! The writes of the statuses of a control plane and of its machines.
//!
//! Core computes the statuses. Nothing here decides, and nothing here writes.

use std::collections::BTreeSet;

use capstan_core::api::kinds::{CLUSTER_API_MACHINES, KUBEADM_CONTROL_PLANES};
use capstan_core::api::meta::Condition;
use capstan_core::kcp::plan::withdrawn_remediations;
use capstan_core::kcp::state::condition::OWNER_REMEDIATED;
use capstan_core::kcp::status::{STALLED, STEP_FAILS};
use capstan_core::kcp::stored;
use capstan_core::model::ObjectRef;

use super::Found;
use super::objects::WholeObject;
use crate::controllers::planned::lasting_error;
use crate::controllers::stored_parts::StoredParts;
use crate::runtime::{Reconciled, Verb, Write};

/// The writes of the statuses. A patch that would only repeat what is not stored is left out.
pub(super) fn writes(reconciled: &Reconciled<'_, Found>, known: &mut StoredParts) -> Vec<Write> {
    let observed = reconciled.observed;
    let (assessment, namespace) = (&observed.assessment, &observed.key.namespace);
    let now = reconciled.moment.time;
    // An object that was patched in this reconcile has another version by now.
    let is_patched = |write: &Write| {
        let mut taken = reconciled.taken.iter().filter_map(|at| observed.planned.get(*at));
        taken.any(|planned| planned.step.write.object == write.object)
    };
    let mut writes = Vec::new();
    let generation = observed.object.metadata.generation;
    let generation = generation.filter(|_| reconciled.errors.is_empty());
    let mut status = assessment.status.clone();
    let conditions = &assessment.state.control_plane.status.conditions;
    let is_known = |one: &Condition| one.type_ == STALLED && one.reason == STEP_FAILS;
    if let Some(error) = lasting_error(reconciled.failing, conditions.iter().any(is_known), now) {
        status.report_failing(error);
    }
    let own = stored::control_plane_patch(&observed.object.value, &status, assessment.initialized, generation, now);
    let own = known.unless_repeated(&observed.key, &observed.object.value, own);
    let own_name = &observed.key.name;
    writes.extend(own.map(|patch| Write::new(&KUBEADM_CONTROL_PLANES, namespace, own_name, Verb::PatchStatus(patch))));
    if !assessment.state.is_paused() {
        let withdrawn: BTreeSet<&str> = withdrawn_remediations(&assessment.state).into_iter().collect();
        for (machine, conditions) in &assessment.machines {
            let live = reconciled
                .view
                .objects
                .get::<WholeObject>(&CLUSTER_API_MACHINES, namespace, machine);
            let Some(live) = live else { continue };
            let withdrawn = withdrawn.contains(machine.as_str()).then_some(OWNER_REMEDIATED);
            let patch = stored::machine_patch(&live.value, conditions, withdrawn.as_slice(), now);
            let object = CLUSTER_API_MACHINES.object(namespace, machine);
            let patch = known.unless_repeated(&object, &live.value, patch);
            writes.extend(
                patch.map(|patch| Write::new(&CLUSTER_API_MACHINES, namespace, machine, Verb::PatchStatus(patch))),
            );
        }
    }
    writes.retain(|write| !is_patched(write));
    let machines = &assessment.machines;
    let is_machine = |object: &ObjectRef| machines.iter().any(|(name, _)| *name == object.name);
    known.retain(|object| KUBEADM_CONTROL_PLANES.is_kind_of(object) || is_machine(object));
    writes
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use capstan_core::kcp::assessment::{Surroundings, assess};
    use capstan_core::kcp::observed::{Observed, ReadObject};
    use jiff::Timestamp;
    use serde_json::{Value, json};

    use super::super::inspect::Inspected;
    use super::*;
    use crate::runtime::{Source, View, Written};

    fn now() -> Timestamp {
        "2026-01-01T12:00:00Z".parse().unwrap()
    }

    fn found(object: &Value) -> Found {
        let object: WholeObject = serde_json::from_value(object.clone()).unwrap();
        let ReadObject::ControlPlane(control_plane) = object.read(&KUBEADM_CONTROL_PLANES).unwrap() else {
            panic!("{object:?}");
        };
        let nothing = Inspected::nothing("the managed cluster is not read");
        let surroundings = Surroundings {
            secrets: &[],
            inspection: &nothing.inspection,
            has_configuration: false,
            recorded: &Ok(Vec::new()),
        };
        Found {
            key: KUBEADM_CONTROL_PLANES.object("default", "c"),
            assessment: assess(Observed::of_read(&control_plane, Vec::new()), &surroundings, now()),
            object: Arc::new(object),
            secrets: Vec::new(),
            unlabelled: BTreeSet::new(),
            managed: None,
            can_be_inspected: false,
            source: Source::Caches,
            planned: Vec::new(),
            configs: BTreeMap::new(),
            addon: Ok(None),
            now: now(),
        }
    }

    fn written(object: &Value, known: &mut StoredParts) -> Vec<Write> {
        let (view, found) = (View::default(), found(object));
        writes(&Reconciled::calm(&view, &found, now()), known)
    }

    #[test]
    fn v222_a_status_that_the_crd_of_kubeadm_control_planes_prunes_is_written_once() {
        let mut object = json!({"apiVersion": "controlplane.cluster.x-k8s.io/v1beta2", "kind": "KubeadmControlPlane",
            "metadata": {"name": "c", "namespace": "default", "uid": "u", "resourceVersion": "1", "generation": 1,
                "labels": {"cluster.x-k8s.io/cluster-name": "c"}},
            "spec": {"replicas": 3, "version": "v1.33.0"}});
        let mut known = StoredParts::default();
        let first = written(&object, &mut known);
        let [write] = first.as_slice() else { panic!("{first:?}") };
        let Verb::PatchStatus(patch) = &write.verb else {
            panic!("{write:?}")
        };
        assert!(patch["status"]["selector"].is_string(), "{patch}");
        let mut answer = patch["status"].clone();
        let kept = answer.as_object_mut().unwrap();
        for field in ["selector", "replicas", "upToDateReplicas"] {
            kept.remove(field);
        }
        kept.retain(|_, value| !value.is_null());
        object["status"] = answer.clone();
        assert_eq!(written(&object, &mut known).len(), 1, "nothing is known of the answer");
        let stored = Written {
            status: answer,
            ..Written::default()
        };
        known.learn(write, &stored);
        assert_eq!(written(&object, &mut known), [], "nothing else differs");
        object["status"]["conditions"] = json!([]);
        assert_eq!(written(&object, &mut known).len(), 1, "a condition is lost");
    }
}
