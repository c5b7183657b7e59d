//! Properties of the plans for random snapshots.

use proptest::prelude::*;
use proptest::test_runner::Config;
use serde_json::{Value, json};

use super::super::*;
use crate::api::controlplane_cluster_x_k8s_io::annotation::PRE_TERMINATE_HOOK;
use crate::kcp::samples::{World, now};
use crate::model::{MembershipChange, PAUSED_ROLLOUT, quorum_after};

/// How a machine differs from a healthy one.
#[derive(Clone, Copy, Debug)]
struct Flaws {
    domain: char,
    outdated: bool,
    unhealthy: bool,
    deleting: bool,
    drained: bool,
    no_node: bool,
    marked: bool,
    /// The index of a component that is not healthy.
    component: usize,
    status: &'static str,
    learner: bool,
    alarm: bool,
    no_member: bool,
}

/// True in one of `of` cases.
fn rarely(of: u32) -> impl Strategy<Value = bool> {
    (0..of).prop_map(|number| number == 0)
}

fn flaws() -> impl Strategy<Value = Flaws> {
    let state = (rarely(3), rarely(4), rarely(8), any::<bool>(), rarely(10), rarely(8));
    let health = (
        0_usize..16,
        prop_oneof![Just("False"), Just("Unknown"), Just("")],
        rarely(12),
        rarely(12),
        rarely(12),
    );
    (
        prop_oneof![Just('a'), Just('b'), Just('c'), Just('x'), Just('-')],
        state,
        health,
    )
        .prop_map(
            |(domain, (outdated, unhealthy, deleting, drained, no_node, marked), health)| {
                let (component, status, learner, alarm, no_member) = health;
                Flaws {
                    domain,
                    outdated,
                    unhealthy,
                    deleting,
                    drained,
                    no_node,
                    marked,
                    component,
                    status,
                    learner,
                    alarm,
                    no_member,
                }
            },
        )
}

/// What the whole control plane is like.
#[derive(Clone, Copy, Debug)]
struct Setting {
    replicas: usize,
    surge: u32,
    external: bool,
    paused: bool,
    in_progress: bool,
    initialized: bool,
    unknown_members: bool,
    unnamed_member: bool,
    stray_member: bool,
}

fn setting() -> impl Strategy<Value = Setting> {
    let switches = (
        rarely(5),
        rarely(6),
        rarely(4),
        rarely(8),
        rarely(8),
        rarely(8),
        rarely(8),
    );
    (0_usize..4, 0_u32..2, switches).prop_map(|(size, surge, switches)| {
        let (external, paused, in_progress, young, unknown_members, unnamed_member, stray_member) = switches;
        Setting {
            replicas: [1, 3, 5, 7][size],
            surge,
            external,
            paused,
            in_progress,
            initialized: !young,
            unknown_members,
            unnamed_member,
            stray_member,
        }
    })
}

fn world(machines: &[Flaws], setting: Setting) -> World {
    let domains: String = machines.iter().map(|machine| machine.domain).collect();
    let mut world = World::new(&domains);
    world.spec()["replicas"] = json!(setting.replicas);
    world.spec()["rollout"] = json!({"strategy": {"rollingUpdate": {"maxSurge": setting.surge}}});
    world.control_plane["status"]["initialization"] = json!({"controlPlaneInitialized": setting.initialized});
    let mut annotations = json!({});
    if setting.paused {
        annotations[PAUSED_ROLLOUT] = json!("");
    }
    if setting.in_progress {
        let record = json!({"machine": "gone", "timestamp": "2026-06-01T11:00:00Z", "retryCount": 0});
        annotations[REMEDIATION_IN_PROGRESS] = json!(record.to_string());
    }
    world.control_plane["metadata"]["annotations"] = annotations;
    let mut members = Vec::new();
    for (index, flaws) in machines.iter().enumerate() {
        apply(&mut world, index, *flaws);
        if !flaws.no_member {
            let alarms: &[&str] = if flaws.alarm { &["NOSPACE"] } else { &[] };
            members.push(json!({"name": format!("n-{index}"), "learner": flaws.learner, "alarms": alarms}));
        }
    }
    members.extend(setting.unnamed_member.then(|| json!({"name": "", "learner": true})));
    members.extend(setting.stray_member.then(|| json!({"name": "stray"})));
    if let Some(etcd) = &mut world.etcd {
        etcd["members"] = Value::from(members);
    }
    if setting.unknown_members {
        world.etcd = None;
    }
    if setting.external { world.external() } else { world }
}

fn apply(world: &mut World, index: usize, flaws: Flaws) {
    if flaws.no_node {
        world.without_node(index);
    }
    if flaws.outdated {
        world.outdated(index);
    }
    if flaws.unhealthy {
        world.unhealthy(index);
    }
    if flaws.marked {
        world.annotate(index, "cluster.x-k8s.io/delete-machine", "");
    }
    if flaws.deleting {
        world.delete(index);
        if flaws.drained {
            world.machines[index]["status"]["conditions"]
                .as_array_mut()
                .unwrap()
                .push(json!({"type": "Deleting", "status": "True", "reason": "WaitingForPreTerminateHook"}));
        }
    }
    let components = [
        condition::API_SERVER,
        condition::CONTROLLER_MANAGER,
        condition::SCHEDULER,
        condition::ETCD_POD,
        condition::ETCD_MEMBER,
    ];
    if let Some(component) = components.get(flaws.component) {
        world.set(index, component, flaws.status);
    }
    // The controller derives the condition from the member.
    if flaws.learner || flaws.alarm || flaws.no_member {
        world.set(index, condition::ETCD_MEMBER, "False");
    }
}

proptest! {
    #![proptest_config(Config::with_cases(4_000))]

    #[test]
    fn no_plan_loses_the_quorum_or_takes_two_steps_at_a_time(
        machines in proptest::collection::vec(flaws(), 0..8),
        setting in setting(),
    ) {
        let world = world(&machines, setting);
        let state = world.state();
        let plan = plan(&state, now());
        let disruptive: Vec<&Step> = plan.steps.iter().filter(|step| step.is_disruptive()).collect();
        prop_assert!(disruptive.len() <= 1, "{disruptive:?}");
        if let Some(step) = disruptive.first() {
            prop_assert!(plan.steps.last().is_some_and(Step::is_disruptive), "the disruptive step is the last one");
            check(&state, step, setting)?;
        }
    }

    #[test]
    fn a_plan_without_a_step_says_why_or_has_nothing_to_do(
        machines in proptest::collection::vec(flaws(), 0..8),
        setting in setting(),
    ) {
        let state = world(&machines, setting).state();
        let plan = plan(&state, now());
        let is_complete = state.machines.len() == setting.replicas && state.outdated().is_empty();
        let is_idle = plan.steps.is_empty() && plan.waits.is_empty() && plan.degraded.is_empty();
        prop_assert!(!is_idle || is_complete, "{} machines", state.machines.len());
        let again = super::super::plan(&state, now());
        prop_assert_eq!(again, plan, "the same state gives the same plan");
    }
}

fn check(state: &State, step: &Step, setting: Setting) -> Result<(), TestCaseError> {
    let members = state.members().unwrap_or_default();
    let voting = |change: MembershipChange<'_>| {
        let quorum = quorum_after(&members, change);
        members.is_empty() || quorum.is_safe()
    };
    let others_serve = |name: &str| {
        let others = state.machines.iter().filter(|machine| machine.name() != name);
        others.filter(|machine| machine.is_true(condition::API_SERVER)).count() > 0
    };
    let name = step.subject.name.as_str();
    let machine = state.machine(name);
    match &step.action {
        Action::Create { .. } => {
            prop_assert!(machine.is_none(), "no second machine of this name");
            // One machine takes over from machines that are all being deleted.
            let succeeds = state.all_leave();
            prop_assert!(succeeds || state.deleting().next().is_none());
            prop_assert!(succeeds || state.machines.len() < setting.replicas + state.max_surge());
            let in_progress = setting.in_progress;
            let joining = state.machines.iter().any(|machine| machine.node().is_none());
            prop_assert!(succeeds || in_progress || !joining, "the last machine has joined");
            // External etcd has no members here.
            prop_assert!(!succeeds || setting.external || !members.is_empty());
            prop_assert!(state.machines.is_empty() || voting(MembershipChange::Add));
        }
        Action::Delete { member, .. } => {
            let machine = machine.ok_or_else(|| TestCaseError::fail("the machine exists"))?;
            prop_assert!(!machine.is_deleting(), "no second deletion");
            // A deletion that waits for the repair of this machine keeps its member until then.
            let repairs = machine.needs_remediation() && state.deleting().all(|other| other.has(PRE_TERMINATE_HOOK));
            prop_assert!(!setting.initialized || repairs || state.deleting().next().is_none());
            prop_assert!(!setting.initialized || state.machines.len() > 1);
            let serves = machine.is_true(condition::API_SERVER);
            prop_assert!(!setting.initialized || others_serve(name) || !serves);
            let has_hook = machine.has(PRE_TERMINATE_HOOK);
            let is_listed = |name: &String| members.is_empty() || members.iter().any(|one| one.name == *name);
            let leaves = machine.member.clone().filter(is_listed);
            prop_assert!(has_hook || !state.is_etcd_managed() || *member == leaves);
            if let Some(member) = machine.member.as_deref().filter(|_| setting.initialized) {
                prop_assert!(voting(MembershipChange::Remove(member)), "{member} {members:?}");
            }
        }
        Action::RemoveMember { member } => {
            let is_owned = state
                .machines
                .iter()
                .any(|machine| machine.node() == Some(member.as_str()));
            prop_assert!(!is_owned);
            prop_assert!(member.is_empty() || voting(MembershipChange::Remove(member)));
        }
        Action::RemoveHook { member, .. } => {
            if let Some(member) = member {
                prop_assert!(voting(MembershipChange::Remove(member)));
            }
            let serves = machine.is_some_and(|machine| machine.is_true(condition::API_SERVER));
            prop_assert!(others_serve(name) || !serves || !state.has_data());
            prop_assert!(state.machines.len() > 1 || !state.has_data(), "the last machine stays");
        }
        Action::Patch(_) | Action::PatchControlPlane(_) => {}
    }
    Ok(())
}
