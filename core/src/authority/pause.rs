//! Pauses and unpauses the Cluster API side of a mirrored Machine, and reads what its controllers
//! and those of the Machine API acknowledged.
//!
//! The controllers of the Machine API act only while `status.authoritativeAPI` is MachineAPI, and
//! those of Cluster API only without the annotation `cluster.x-k8s.io/paused`. Both report with the
//! condition Paused, before they act.
//!
//! Must never: remove a pause that a user set, or take an acknowledgement of an earlier pause for
//! one of this pause (decision 13). A migration therefore begins, and pauses, only while the
//! condition is False. It can become True only by this pause then.

use serde_json::{Map, Value, json};

use super::pair::{Decision, FullObject, Pair, Part, Write};
use super::spec::{Api, Kind};
use super::{PAUSED_BY_SYNC, finalizers};
use crate::api::cluster_x_k8s_io::annotation::PAUSED as ANNOTATION;
use crate::api::machine_openshift_io::authority::PAUSED;

/// The objects that the annotation pauses.
const PARTS: [Part; 2] = [Part::ClusterApi, Part::Infrastructure];

/// Pauses the next object of Cluster API that is not paused. `acknowledge` is set when a migration
/// waits for the acknowledgement: an object with an acknowledgement of an earlier pause has to
/// report first that it is not paused.
fn pause(pair: &Pair, acknowledge: bool) -> Option<Decision> {
    PARTS.into_iter().find_map(|part| {
        let object = pair.part(part).filter(|object| !object.member.is_paused())?;
        let reports = parts(pair, Api::ClusterApi).contains(&part);
        if acknowledge && reports && object.condition(PAUSED) == Some("True") {
            return Some(Decision::wait(format!(
                "the condition Paused of {} is True although it is not paused",
                title(object)
            )));
        }
        let because = "its API is not authoritative";
        Some(Write::patch(part, object, annotate(&PAUSED_BY_SYNC.into()), because).into())
    })
}

/// Unpauses the next object of Cluster API that the sync controller paused, the infrastructure
/// first.
pub(super) fn unpause(pair: &Pair) -> Option<Write> {
    PARTS.into_iter().rev().find_map(|part| {
        let object = pair.part(part).filter(|object| object.member.is_paused_by_sync())?;
        let because = "its API is authoritative";
        Some(Write::patch(part, object, annotate(&Value::Null), because))
    })
}

/// Makes the controllers of Cluster API act, which is authoritative: they hold what they will be
/// responsible for before the pause ends.
pub(super) fn open(pair: &Pair) -> Option<Write> {
    let open = unpause(pair)?;
    Some(finalizers::hand_over(pair, Api::ClusterApi).unwrap_or(open))
}

/// Unpauses the next object of a Machine of Cluster API that is being deleted. Its infrastructure
/// is unpaused once it is being deleted too: before that, its controllers could create an instance.
pub(super) fn unpause_deleted(pair: &Pair) -> Option<Write> {
    pair.cluster_api.as_ref().filter(|machine| machine.member.deleting)?;
    PARTS.into_iter().rev().find_map(|part| {
        let object = pair.part(part)?;
        let is_left = object.member.deleting && object.member.is_paused_by_sync();
        let because = "it is being deleted, and no object of the Machine API is left";
        is_left.then(|| Write::patch(part, object, annotate(&Value::Null), because))
    })
}

fn annotate(value: &Value) -> Map<String, Value> {
    Map::from_iter([(String::from("metadata"), json!({"annotations": {ANNOTATION: value}}))])
}

/// The MachineHealthCheck of the Machine API. Its controller does not read
/// `status.authoritativeAPI`: the same annotation pauses it as in Cluster API.
fn check(pair: &Pair) -> Option<&FullObject> {
    let is_check = pair.kind == Kind::MachineHealthCheck;
    pair.machine_api.as_ref().filter(|_| is_check)
}

/// Closes the gate of an API: pauses the next of its objects that an annotation pauses.
/// `acknowledge` is as in [`pause`].
pub(super) fn close(pair: &Pair, api: Api, acknowledge: bool) -> Option<Decision> {
    if api == Api::ClusterApi {
        return pause(pair, acknowledge);
    }
    let object = check(pair).filter(|object| !object.member.is_paused())?;
    let because = "its API is not authoritative";
    Some(Write::patch(Part::MachineApi, object, annotate(&PAUSED_BY_SYNC.into()), because).into())
}

/// Unpauses the MachineHealthCheck of the Machine API, if the sync controller paused it.
pub(super) fn open_check(pair: &Pair) -> Option<Write> {
    let object = check(pair).filter(|object| object.member.is_paused_by_sync())?;
    let because = "its API is authoritative";
    Some(Write::patch(Part::MachineApi, object, annotate(&Value::Null), because))
}

/// Whether the gate of an API is closed. The status of an object of the Machine API closes it,
/// except for a MachineHealthCheck.
pub(super) fn is_closed(pair: &Pair, api: Api) -> bool {
    match api {
        Api::MachineApi => check(pair).is_none_or(|object| object.member.is_paused()),
        Api::ClusterApi => {
            let mut objects = PARTS.into_iter().filter_map(|part| pair.part(part));
            objects.all(|object| object.member.is_paused())
        }
    }
}

/// Whether the controllers of an API acknowledged that they do not act. The controller of
/// MachineHealthChecks of the Machine API acknowledges nothing. At most it deletes a Machine that
/// it judged before the pause, which a deletion by the other controller does not repeat.
pub(super) fn is_acknowledged(pair: &Pair, api: Api) -> bool {
    if api == Api::MachineApi
        && let Some(object) = check(pair)
    {
        return object.member.is_paused();
    }
    parts(pair, api).iter().all(|part| {
        let paused = |object: &FullObject| *part == Part::MachineApi || object.member.is_paused();
        pair.part(*part)
            .is_some_and(|object| paused(object) && object.condition(PAUSED) == Some("True"))
    })
}

/// Why the controllers of an API do not act. `None`: all of them report that they do.
pub(super) fn not_running(pair: &Pair, api: Api) -> Option<String> {
    parts(pair, api).iter().find_map(|part| {
        let Some(object) = pair.part(*part) else {
            return Some(String::from("the infrastructure machine does not exist"));
        };
        let title = title(object);
        let is_check = *part == Part::MachineApi && pair.kind == Kind::MachineHealthCheck;
        if (is_check || *part != Part::MachineApi) && object.member.is_paused() {
            return Some(format!("{title} has the annotation {ANNOTATION}"));
        }
        if is_check {
            return None;
        }
        match object.condition(PAUSED) {
            Some("False") => None,
            Some(status) => Some(format!("the condition Paused of {title} is {status}")),
            None => Some(format!("the controllers of {title} do not report the condition Paused")),
        }
    })
}

/// The objects whose controllers report a pause. No controller acts on an infrastructure template.
fn parts(pair: &Pair, api: Api) -> &'static [Part] {
    match api {
        Api::MachineApi => &[Part::MachineApi],
        Api::ClusterApi if pair.is_parent() => &[Part::ClusterApi],
        Api::ClusterApi => &PARTS,
    }
}

/// `AWSMachine openshift-cluster-api/a`.
pub(super) fn title(object: &FullObject) -> String {
    let text = |at: &str| object.text(at).unwrap_or_default();
    let (kind, namespace) = (text("/kind"), text("/metadata/namespace"));
    format!("{kind} {namespace}/{}", text("/metadata/name"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(pause: Option<&str>, condition: Option<&str>) -> FullObject {
        let annotations = pause.map(|value| json!({ANNOTATION: value}));
        let conditions = condition.map(|status| json!([{"type": "Paused", "status": status}]));
        FullObject::from(
            json!({"kind": "Machine", "metadata": {"name": "a", "namespace": "n", "uid": "u",
            "annotations": annotations}, "status": {"conditions": conditions}}),
        )
    }

    fn pair(machine: FullObject, infrastructure: FullObject) -> Pair {
        Pair {
            cluster_api: Some(machine),
            infrastructure: Some(infrastructure),
            ..Pair::default()
        }
    }

    #[test]
    fn an_acknowledgement_of_an_earlier_pause_does_not_count() {
        let stale = || object(None, Some("True"));
        let waits = pause(&pair(stale(), stale()), true);
        assert!(matches!(waits, Some(Decision::Wait(_))), "{waits:?}");
        assert!(!is_acknowledged(&pair(stale(), stale()), Api::ClusterApi));
        // Without a migration, the pause is set in any case.
        let writes = pause(&pair(stale(), stale()), false);
        assert!(matches!(writes, Some(Decision::Write(_))), "{writes:?}");
    }

    #[test]
    fn both_objects_of_cluster_api_acknowledge_a_pause() {
        let done = || object(Some(PAUSED_BY_SYNC), Some("True"));
        assert!(is_acknowledged(&pair(done(), done()), Api::ClusterApi));
        for missing in [object(Some(PAUSED_BY_SYNC), Some("False")), object(Some(""), None)] {
            assert!(!is_acknowledged(&pair(done(), missing.clone()), Api::ClusterApi));
            assert!(!is_acknowledged(&pair(missing, done()), Api::ClusterApi));
        }
    }

    #[test]
    fn a_pause_of_a_user_stays() {
        let by_user = || object(Some(""), Some("True"));
        assert_eq!(unpause(&pair(by_user(), by_user())), None);
        let reason = not_running(&pair(by_user(), by_user()), Api::ClusterApi);
        assert_eq!(
            reason.as_deref(),
            Some("Machine n/a has the annotation cluster.x-k8s.io/paused")
        );
    }
}
