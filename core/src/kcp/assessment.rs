//! All decisions about a control plane at one moment, for the controller: the plan, the status, the
//! Secrets, and the conditions of the machines.
//!
//! What was inspected just now replaces the stored conditions before anything is planned. A stored
//! condition says what was true when it was written.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::action::{Action, Plan, Wait, WaitReason};
use super::certificates::{Certificates, FoundSecret, certificates, ran_before};
use super::first_machine::{self, Contact};
use super::inspection::{self, Inspection};
use super::observed::Observed;
use super::pending::{Recorded, hold};
use super::plan::plan;
use super::state::State;
use super::status::{Condition, Status, machine_conditions, status};
use crate::api::cluster_x_k8s_io::control_plane::MachineCondition;
use crate::api::meta;
use crate::model::UnreadablePendingCreations;

/// What was read besides the objects of the management cluster.
#[derive(Debug)]
pub struct Surroundings<'a> {
    /// The Secrets of the Cluster.
    pub secrets: &'a [FoundSecret],
    /// The managed cluster.
    pub inspection: &'a Inspection,
    /// For how long no server has answered at the address of the managed cluster, by the clock of
    /// this process; `None` if one does, or if that is not known.
    pub silent_for: Option<SignedDuration>,
    /// Whether the managed cluster has the configuration that `kubeadm init` stores.
    pub has_configuration: bool,
    /// The creations that the control plane records.
    pub recorded: &'a Result<Vec<Recorded>, UnreadablePendingCreations>,
}

/// The decisions.
#[derive(Clone, Debug)]
pub struct Assessment {
    /// The state, with the conditions of this moment.
    pub state: State,
    /// What to do next.
    pub plan: Plan,
    /// What happens to the Secrets.
    pub certificates: Certificates,
    /// What to report.
    pub status: Status,
    /// Whether the control plane is initialized.
    pub initialized: bool,
    /// Why the control plane may have run before.
    pub ran_before: Option<String>,
    /// The conditions of each machine.
    pub machines: Vec<(String, Vec<Condition>)>,
}

/// The decisions about a control plane.
pub fn assess(mut observed: Observed, surroundings: &Surroundings<'_>, now: Timestamp) -> Assessment {
    let inspection = surroundings.inspection;
    observed.nodes = inspection.nodes.as_ref().cloned().unwrap_or_default();
    observed.etcd = inspection.etcd.as_ref().ok().cloned();
    if surroundings.has_configuration {
        let initialization = &mut observed.control_plane.status.initialization;
        initialization.control_plane_initialized = Some(true);
    }
    let stored = State::observe(&observed, now);
    let certificates = certificates(&stored, surroundings.secrets);
    let inspected: Vec<(String, Vec<Condition>)> = inspection::conditions(&stored, inspection)
        .into_iter()
        .map(|(machine, conditions)| (machine.to_owned(), conditions))
        .collect();
    let borrowed: Vec<(&str, Vec<Condition>)> = inspected
        .iter()
        .map(|(machine, conditions)| (machine.as_str(), conditions.clone()))
        .collect();
    let mut summary = inspection::summary(&stored, &borrowed);
    summary.push(certificates.condition_now());
    overlay(&mut observed, &inspected, &summary, now);
    let state = State::observe(&observed, now);
    let mut plan = plan(&state, now);
    begin_with_certificates(&state, &certificates, &mut plan);
    let contact = Contact::of(inspection, surroundings.silent_for);
    first_machine::hold(&state, surroundings.secrets, &contact, &mut plan);
    hold(&state, surroundings.recorded, &mut plan);
    let mut status = status(&state, &plan, now);
    if !state.is_paused() {
        status.conditions.extend(summary);
        status.conditions.sort_by_key(|condition| condition.type_);
    }
    let mut machines = inspected;
    for (machine, own) in machine_conditions(&state, now) {
        if let Some((_, conditions)) = machines.iter_mut().find(|(name, _)| name == machine) {
            conditions.extend(own);
        }
    }
    Assessment {
        initialized: state.is_initialized(),
        ran_before: ran_before(&state, surroundings.secrets),
        plan,
        certificates,
        status,
        machines,
        state,
    }
}

/// The first machine is created when all certificates exist. Later machines wait for the condition.
fn begin_with_certificates(state: &State, certificates: &Certificates, plan: &mut Plan) {
    let is_complete = certificates.generate.is_empty() && certificates.missing.is_empty();
    let creates = |step: &super::action::Step| matches!(step.action, Action::Create { .. });
    if is_complete || !state.machines.is_empty() || !plan.steps.iter().any(creates) {
        return;
    }
    plan.steps.retain(|step| !creates(step));
    let message = String::from("the certificates of the cluster must exist before the first machine is created");
    plan.waits.push(Wait::new(WaitReason::CertificatesAvailable, message));
}

/// Replaces the stored conditions with those of this moment.
fn overlay(observed: &mut Observed, machines: &[(String, Vec<Condition>)], own: &[Condition], now: Timestamp) {
    for machine in &mut observed.machines {
        let Some((_, conditions)) = machines.iter().find(|(name, _)| name == machine.metadata.name()) else {
            continue;
        };
        let stored = &mut Arc::make_mut(machine).status.conditions;
        for condition in conditions {
            let before = stored.iter().position(|stored| stored.type_ == condition.type_);
            let before = before.map(|at| stored.swap_remove(at));
            let since = before.filter(|before| before.status == condition.status);
            stored.push(MachineCondition {
                type_: condition.type_.to_owned(),
                status: condition.status.to_owned(),
                reason: condition.reason.to_owned(),
                message: condition.message.clone(),
                last_transition_time: since.map_or(Some(now), |since| since.last_transition_time),
                ..MachineCondition::default()
            });
        }
    }
    let stored = &mut observed.control_plane.status.conditions;
    for condition in own {
        let before = stored.iter().position(|stored| stored.type_ == condition.type_);
        let before = before.map(|at| stored.swap_remove(at));
        let since = before.filter(|before| before.status == condition.status);
        stored.push(meta::Condition {
            type_: condition.type_.to_owned(),
            status: condition.status.to_owned(),
            observed_generation: None,
            last_transition_time: since.map_or(now, |since| since.last_transition_time),
            reason: condition.reason.to_owned(),
            message: condition.message.clone(),
        });
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::certificates::SECRET_TYPE;
    use super::super::inspection::Failure;
    use super::*;
    use crate::kcp::samples::{World, now};
    use crate::kcp::state::condition;

    fn unreachable() -> Inspection {
        let down = || Failure::ConnectionDown(String::from("no route"));
        Inspection {
            nodes: Err(down()),
            pods: Err(down()),
            etcd: Err(down()),
        }
    }

    fn secrets() -> Vec<FoundSecret> {
        let found = ["c-ca", "c-etcd", "c-sa", "c-proxy"].map(|name| FoundSecret {
            name: name.to_owned(),
            type_: SECRET_TYPE.to_owned(),
            has_certificate: true,
            has_key: true,
            controller: None,
        });
        found.to_vec()
    }

    fn assessed(world: &World, secrets: &[FoundSecret], inspection: &Inspection) -> Assessment {
        let observed = Observed::of_objects(&world.objects()).unwrap();
        let surroundings = Surroundings {
            secrets,
            inspection,
            silent_for: None,
            has_configuration: false,
            recorded: &Ok(Vec::new()),
        };
        assess(observed, &surroundings, now())
    }

    #[test]
    fn the_first_machine_waits_for_the_certificates() {
        let world = World::new("");
        let missing = assessed(&world, &[], &unreachable());
        assert_eq!(missing.certificates.generate.len(), 4);
        assert!(missing.plan.steps.is_empty(), "{:?}", missing.plan);
        let complete = assessed(&world, &secrets(), &unreachable());
        assert_eq!(complete.plan.steps.len(), 1, "{:?}", complete.plan);
    }

    #[test]
    fn stored_conditions_of_a_cluster_that_is_down_do_not_count() {
        let mut world = World::new("abc");
        world.spec()["replicas"] = serde_json::json!(5);
        let assessment = assessed(&world, &secrets(), &unreachable());
        assert!(assessment.plan.steps.is_empty(), "{:?}", assessment.plan);
        let (_, conditions) = &assessment.machines[0];
        let member = conditions.iter().find(|one| one.type_ == condition::ETCD_MEMBER);
        assert_eq!(member.unwrap().reason, "ConnectionDown");
        let empty = Inspection {
            nodes: Ok(BTreeMap::new()),
            ..unreachable()
        };
        assert!(assessed(&world, &secrets(), &empty).plan.steps.is_empty());
    }

    #[test]
    fn every_type_of_condition_is_reported_once() {
        let assessment = assessed(&World::new("abc"), &secrets(), &unreachable());
        let mut types: Vec<&str> = assessment.status.conditions.iter().map(|one| one.type_).collect();
        let count = types.len();
        types.dedup();
        assert_eq!(types.len(), count);
        assert!(types.contains(&"EtcdClusterHealthy") && types.contains(&"CertificatesAvailable"));
    }
}
