//! The whole rollout in advance: the plan is executed on a copy of the snapshot, with an
//! infrastructure on which every machine becomes healthy.
//!
//! The preview uses the planner itself, so that it shows the steps that are taken.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::action::{Action, Plan, Step};
use super::first_machine::plan_of_objects;
use super::observed::{Observed, ReportedMember};
use super::state::{MachineState, State, condition};
use crate::api::cluster_x_k8s_io::annotation::{CLONED_FROM_GROUP_KIND, CLONED_FROM_NAME};
use crate::api::cluster_x_k8s_io::control_plane::{Machine, MachineCondition};
use crate::api::infrastructure_cluster_x_k8s_io::Infrastructure;

/// The steps until nothing changes any more.
#[derive(Clone, Debug, Default)]
pub struct Preview {
    /// The steps, in order.
    pub steps: Vec<Step>,
    /// The plan after them.
    pub end: Plan,
    /// Whether more than [`LONGEST`] steps follow.
    pub is_cut: bool,
}

/// The most steps. Each one takes longer with each machine, so a large number would take hours.
pub const LONGEST: usize = 200;

/// The most plans for one machine: record, create, delete, remove.
const PLANS_FOR_A_MACHINE: usize = 8;
/// The time between two plans.
const ROUND: SignedDuration = SignedDuration::from_mins(30);
/// The conditions of a machine that works.
const HEALTHY: &[&str] = &[
    condition::API_SERVER,
    condition::CONTROLLER_MANAGER,
    condition::SCHEDULER,
    condition::ETCD_POD,
    condition::ETCD_MEMBER,
    condition::LABELS_AND_TAINTS,
];

/// The preview. It ends when the planner waits for something that the infrastructure does not
/// change, such as an unhealthy machine that no health check reports.
pub fn preview(observed: &Observed, now: Timestamp) -> Preview {
    let (mut world, mut now) = (observed.clone(), now);
    let mut preview = Preview::default();
    let replicas = observed.control_plane.spec.replicas.unwrap_or(0);
    let replicas = usize::try_from(replicas).unwrap_or(0).min(100);
    let rounds = PLANS_FOR_A_MACHINE * (observed.machines.len() + replicas + 1);
    for _ in 0..rounds {
        if preview.steps.len() >= LONGEST {
            preview.is_cut = true;
            break;
        }
        let state = State::observe(&world, now);
        let next = plan_of_objects(&state, now);
        now = now.checked_add(ROUND).unwrap_or(now);
        if next.steps.is_empty() {
            preview.end = next;
            if !provide(&mut world, &state) {
                break;
            }
            continue;
        }
        for step in &next.steps {
            take(&mut world, step, now);
        }
        let disruptive = next.disruptive().is_some();
        preview.steps.extend(next.steps);
        if disruptive {
            let after = State::observe(&world, now);
            provide(&mut world, &after);
        }
    }
    preview
}

/// Takes a step as an API server and etcd do.
fn take(world: &mut Observed, step: &Step, now: Timestamp) {
    let name = &step.subject.name;
    match &step.action {
        Action::Create { machine, config, .. } => {
            let mut machine = (**machine).clone();
            machine.metadata.uid = Some(format!("preview-{name}"));
            machine.metadata.creation_timestamp = Some(now);
            let template = &world.control_plane.spec.machine_template.spec.infrastructure_ref;
            let mut infrastructure = Infrastructure::default();
            infrastructure.metadata.annotations = BTreeMap::from([
                (CLONED_FROM_NAME.to_owned(), template.name.clone()),
                (
                    CLONED_FROM_GROUP_KIND.to_owned(),
                    format!("{}.{}", template.kind, template.api_group),
                ),
            ]);
            let key = (machine.spec.infrastructure_ref.kind.clone(), name.clone());
            world.infrastructure.insert(key, Arc::new(infrastructure));
            world.configs.insert(name.clone(), Arc::new((**config).clone().into()));
            world.machines.push(Arc::new(machine));
        }
        Action::Delete { member, .. } => {
            if let Some(member) = member {
                remove_member(world, member);
            }
            let deleted = |machine: &mut Machine| {
                machine.metadata.deletion_timestamp.get_or_insert(now);
            };
            change(world, name, deleted);
        }
        Action::Patch(patch) => patch_machine(world, name, patch),
        Action::PatchControlPlane(patch) => {
            if let Some(patched) = patched(&world.control_plane, patch) {
                world.control_plane = patched;
            }
        }
        Action::RemoveMember { member } => remove_member(world, member),
        Action::RemoveHook { member, patch, .. } => {
            if let Some(member) = member {
                remove_member(world, member);
            }
            patch_machine(world, name, patch);
        }
    }
}

fn change(world: &mut Observed, name: &str, change: impl FnOnce(&mut Machine)) {
    let mut machines = world.machines.iter_mut();
    if let Some(machine) = machines.find(|machine| machine.metadata.name() == name) {
        change(Arc::make_mut(machine));
    }
}

fn patch_machine(world: &mut Observed, name: &str, patch: &Value) {
    change(world, name, |machine| {
        if let Some(patched) = patched(machine, patch) {
            *machine = patched;
        }
    });
}

fn patched<T: serde::Serialize + serde::de::DeserializeOwned>(object: &T, patch: &Value) -> Option<T> {
    let mut value = serde_json::to_value(object).ok()?;
    json_patch::merge(&mut value, patch);
    serde_json::from_value(value).ok()
}

fn remove_member(world: &mut Observed, name: &str) {
    if let Some(etcd) = &mut world.etcd
        && let Some(at) = etcd.members.iter().position(|member| member.name == name)
    {
        etcd.members.remove(at);
    }
}

/// Applies the changes of an infrastructure that never fails. Returns whether there was a change.
fn provide(world: &mut Observed, state: &State) -> bool {
    let gone: Vec<&MachineState> = state.deleting().collect();
    let waits_for_node =
        |machine: &&MachineState| !machine.is_deleting() && machine.node().is_none() && !machine.is_unhealthy();
    let new: Vec<&MachineState> = state.machines.iter().filter(waits_for_node).collect();
    for machine in &gone {
        world.machines.retain(|there| there.metadata.name() != machine.name());
        if let Some(member) = &machine.member {
            remove_member(world, member);
            world.nodes.remove(member);
        }
    }
    for machine in &new {
        start(world, machine.name());
    }
    if !new.is_empty() {
        initialize(world);
    }
    !gone.is_empty() || !new.is_empty()
}

/// The machine gets a Node, an etcd member, and healthy components. A member without a machine is
/// the one of a machine whose Node is not known: the planner has not removed it.
fn start(world: &mut Observed, name: &str) {
    let joined = member_without_node(world);
    let node = joined.as_deref().unwrap_or(name).to_owned();
    change(world, name, |machine| {
        machine.status.node_ref.name = node;
        let is_replaced = |type_: &str| HEALTHY.contains(&type_);
        machine.status.conditions.retain(|found| !is_replaced(&found.type_));
        machine
            .status
            .conditions
            .extend(HEALTHY.iter().map(|type_| MachineCondition {
                type_: (*type_).to_owned(),
                status: String::from("True"),
                ..MachineCondition::default()
            }));
    });
    if let Some(etcd) = &mut world.etcd
        && joined.is_none()
    {
        etcd.members.push(ReportedMember {
            name: name.to_owned(),
            ..ReportedMember::default()
        });
    }
}

/// The first etcd member that has the name of no machine's Node.
fn member_without_node(world: &Observed) -> Option<String> {
    let mut members = world.etcd.iter().flat_map(|etcd| &etcd.members);
    let is_known = |name: &str| {
        let mut machines = world.machines.iter();
        machines.any(|machine| machine.status.node_ref.name == name)
    };
    let found = members.find(|member| !member.name.is_empty() && !is_known(&member.name))?;
    Some(found.name.clone())
}

/// The first machine serves the API, and the certificates that the others need exist.
fn initialize(world: &mut Observed) {
    let status = &mut world.control_plane.status;
    if status.initialization.control_plane_initialized == Some(true) {
        return;
    }
    status.initialization.control_plane_initialized = Some(true);
    let conditions = &mut status.conditions;
    if !conditions.iter().any(|found| found.type_ == "CertificatesAvailable")
        && let Ok(condition) = serde_json::from_value(json!({
            "type": "CertificatesAvailable", "status": "True", "reason": "", "message": "",
            "lastTransitionTime": "1970-01-01T00:00:00Z",
        }))
    {
        conditions.push(condition);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kcp::samples::{World, now};

    fn steps(world: &World) -> String {
        let preview = preview(&world.observed(), now());
        let steps = preview.steps.iter().filter(|step| step.is_disruptive());
        let shown: Vec<String> = steps
            .map(|step| match step.domain() {
                Some(domain) => format!("{} {domain}", step.verb()),
                None => step.verb().to_owned(),
            })
            .collect();
        shown.join(", ")
    }

    #[test]
    fn w175_a_preview_of_many_machines_ends() {
        let mut world = World::new("");
        world.spec()["replicas"] = json!(2_147_483_647);
        world.control_plane["status"] = json!({});
        let preview = preview(&world.observed(), now());
        assert!(
            preview.is_cut && preview.steps.len() < LONGEST + 5,
            "{}",
            preview.steps.len()
        );
        assert!(!super::preview(&World::new("abc").observed(), now()).is_cut);
    }

    #[test]
    fn a_new_control_plane_grows_one_machine_at_a_time() {
        let mut world = World::new("");
        world.spec()["replicas"] = json!(3);
        world.control_plane["status"] = json!({});
        assert_eq!(steps(&world), "create a, create b, create c");
    }

    #[test]
    fn a_rollout_replaces_every_machine_in_its_failure_domain() {
        let mut world = World::new("abc");
        world.spec()["version"] = json!("v1.31.0");
        assert_eq!(
            steps(&world),
            "create a, delete a, create b, delete b, create c, delete c"
        );
        world.spec()["rollout"] = json!({"strategy": {"rollingUpdate": {"maxSurge": 0}}});
        assert_eq!(
            steps(&world),
            "delete a, create a, delete b, create b, delete c, create c"
        );
    }

    #[test]
    fn a_remediation_ends_with_a_replacement() {
        let mut world = World::new("abc");
        world.unhealthy(1);
        world.set(1, condition::ETCD_MEMBER, "False");
        assert_eq!(steps(&world), "delete b, create b");
        let end = preview(&world.observed(), now()).end;
        assert!(end.steps.is_empty() && end.waits.is_empty(), "{end:?}");
    }

    #[test]
    fn w150_a_preview_keeps_the_member_of_a_machine_without_a_node_reference() {
        let mut world = World::new("abc");
        world.machines[1]["status"]["nodeRef"] = json!({});
        assert_eq!(steps(&world), "");
        let end = preview(&world.observed(), now()).end;
        assert!(end.steps.is_empty() && end.waits.is_empty(), "{end:?}");
    }

    #[test]
    fn a_preview_ends_while_a_user_must_act() {
        let mut world = World::new("abc");
        world.spec()["version"] = json!("v1.31.0");
        world.set(1, condition::SCHEDULER, "False");
        assert_eq!(steps(&world), "");
    }
}
