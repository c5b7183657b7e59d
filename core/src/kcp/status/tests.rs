use serde_json::json;

use super::*;
use crate::kcp::plan::plan;
use crate::kcp::samples::{World, now};

fn computed(world: &World) -> Status {
    let state = world.state();
    status(&state, &plan(&state, now()), now())
}

/// `True Reason`, and the message after a colon if there is one.
fn shown(world: &World, type_: &str) -> String {
    let status = computed(world);
    let condition = status
        .conditions
        .iter()
        .find(|condition| condition.type_ == type_)
        .unwrap();
    let head = format!("{} {}", condition.status, condition.reason);
    if condition.message.is_empty() {
        head
    } else {
        format!("{head}: {}", condition.message)
    }
}

#[test]
fn a_healthy_control_plane_is_available_and_does_nothing() {
    let world = World::new("abc");
    let status = computed(&world);
    let all: Vec<String> = status
        .conditions
        .iter()
        .map(|condition| format!("{}={} {}", condition.type_, condition.status, condition.reason))
        .collect();
    assert_eq!(
        all,
        [
            "Available=True Available",
            "Deleting=False NotDeleting",
            "Initialized=True Initialized",
            "MachinesReady=True Ready",
            "MachinesUpToDate=True UpToDate",
            "Paused=False NotPaused",
            "Remediating=False NotRemediating",
            "RollingOut=False NotRollingOut",
            "ScalingDown=False NotScalingDown",
            "ScalingUp=False NotScalingUp",
            "Stalled=False NotStalled",
        ]
    );
    assert!(status.conditions.iter().all(|condition| condition.message.is_empty()));
    assert_eq!(
        status.selector,
        "cluster.x-k8s.io/cluster-name=c,cluster.x-k8s.io/control-plane"
    );
}

#[test]
fn counters_count_conditions_of_machines() {
    let mut world = World::new("abcab");
    world.set(0, "Ready", "False");
    world.set(1, "Available", "Unknown");
    world.set(2, "Available", "");
    world.outdated(3);
    let status = computed(&world);
    let counters = (
        status.replicas,
        status.ready_replicas,
        status.available_replicas,
        status.up_to_date_replicas,
    );
    assert_eq!(counters, (5, 4, 3, 4));
    assert_eq!(status.versions, [("v1.29.0".to_owned(), 1), ("v1.30.0".to_owned(), 4)]);
}

#[test]
fn versions_are_ordered_by_their_numbers() {
    let mut world = World::new("abc");
    world.machines[0]["spec"]["version"] = json!("v1.10.0");
    world.machines[1]["spec"]["version"] = json!("v1.9.0");
    let versions: Vec<String> = computed(&world)
        .versions
        .into_iter()
        .map(|(version, _)| version)
        .collect();
    assert_eq!(versions, ["v1.9.0", "v1.10.0", "v1.30.0"]);
}

#[test]
fn a_rollout_shows_its_reasons_once_and_the_version_first() {
    let mut world = World::new("abc");
    world.spec()["version"] = json!("v1.30.1");
    world.spec()["kubeadmConfigSpec"]["clusterConfiguration"]["imageRepository"] = json!("example.org");
    let shown = shown(&world, "RollingOut");
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines[0], "True RollingOut: Rolling out 3 not up-to-date replicas");
    assert_eq!(lines[1], "* Version v1.30.0, v1.30.1 required");
    assert!(lines[2].starts_with("* KubeadmConfig is not up-to-date: "), "{shown}");
    assert_eq!(lines.len(), 3);
}

#[test]
fn scaling_shows_what_blocks_it() {
    let mut world = World::new("abc");
    world.spec()["replicas"] = json!(5);
    assert_eq!(
        shown(&world, "ScalingUp"),
        "True ScalingUp: Scaling up from 3 to 5 replicas"
    );
    world.set(1, condition::SCHEDULER, "False");
    assert_eq!(
        shown(&world, "ScalingUp"),
        "True ScalingUp: Scaling up from 3 to 5 replicas is blocked because:\n\
         * condition SchedulerPodHealthy of machine m-1 is False"
    );
    world.spec()["replicas"] = json!(1);
    assert!(shown(&world, "ScalingDown").starts_with("True ScalingDown: Scaling down from 3 to 1 replicas is blocked"));
    assert_eq!(shown(&world, "ScalingUp"), "False NotScalingUp");
}

#[test]
fn remediation_shows_the_machines_and_why_they_wait() {
    let mut world = World::new("abc");
    world.unhealthy(1);
    assert_eq!(
        shown(&world, "Remediating"),
        "True Remediating: Unhealthy machines: m-1"
    );
    world.set(0, condition::ETCD_MEMBER, "False");
    assert_eq!(
        shown(&world, "Remediating"),
        "True Remediating: Unhealthy machines: m-1\n* machine m-1 cannot be replaced: \
         the removal of etcd member n-1 would leave 1 healthy of 2 voting etcd members; 2 are needed"
    );
    world.set(1, condition::OWNER_REMEDIATED, "");
    assert!(shown(&world, "Remediating").starts_with("False NotRemediating: a health check reports"));
}

#[test]
fn machines_get_their_own_conditions() {
    let mut world = World::new("abc");
    world.unhealthy(1);
    world.outdated(2);
    let state = world.state();
    let conditions = machine_conditions(&state, now());
    let short = |index: usize| -> Vec<String> {
        let (name, conditions) = &conditions[index];
        assert_eq!(*name, format!("m-{index}"));
        conditions
            .iter()
            .map(|condition| format!("{}={} {}", condition.type_, condition.status, condition.reason))
            .collect()
    };
    assert_eq!(short(0), ["UpToDate=True UpToDate"]);
    assert_eq!(
        short(1),
        ["UpToDate=True UpToDate", "OwnerRemediated=False MachineDeleting"]
    );
    assert_eq!(short(2), ["UpToDate=False NotUpToDate"]);
    assert_eq!(conditions[2].1[0].message, "* Version v1.29.0, v1.30.0 required");
}

#[test]
fn a_machine_is_up_to_date_once_its_node_has_the_version() {
    let mut world = World::new("abc");
    let is_node = |other: &&mut serde_json::Value| other["kind"] == "Node";
    let node = world.others.iter_mut().find(is_node).unwrap();
    node["status"]["nodeInfo"] = json!({"kubeletVersion": "v1.29.5"});
    let state = world.state();
    let condition = &machine_conditions(&state, now())[0].1[0];
    assert_eq!((condition.status, condition.reason), ("False", "Updating"));
    assert_eq!(condition.message, "* Node has version v1.29.5, v1.30.0 required");
    assert_eq!(computed(&world).up_to_date_replicas, 2);
    assert_eq!(
        shown(&world, "MachinesUpToDate"),
        "False NotUpToDate: * Machine m-0: Node has version v1.29.5, v1.30.0 required"
    );
    assert_eq!(
        shown(&world, "RollingOut"),
        "True RollingOut: Rolling out 1 not up-to-date replicas\n* Node has version v1.29.5, v1.30.0 required"
    );
}

#[test]
fn a_control_plane_without_machines_is_ready_and_not_available() {
    let mut world = World::new("");
    world.control_plane["status"] = json!({});
    assert_eq!(shown(&world, "MachinesReady"), "True NoReplicas");
    assert_eq!(shown(&world, "MachinesUpToDate"), "True NoReplicas");
    assert_eq!(
        shown(&world, "Available"),
        "False NotAvailable: Control plane not yet initialized"
    );
    assert_eq!(shown(&world, "Initialized"), "False NotInitialized");
}

#[test]
fn a_machine_that_is_not_ready_is_named_and_an_unknown_one_is_not_false() {
    let mut world = World::new("abc");
    world.set(1, "Ready", "Unknown");
    assert_eq!(
        shown(&world, "MachinesReady"),
        "Unknown ReadyUnknown: * Machine m-1 is not ready"
    );
    world.set(2, "Ready", "False");
    assert!(shown(&world, "MachinesReady").starts_with("False NotReady"));
}

#[test]
fn availability_needs_a_machine_that_serves_a_quorum_and_certificates() {
    let mut world = World::new("abc");
    world.set(0, condition::ETCD_MEMBER, "False");
    assert_eq!(
        shown(&world, "Available"),
        "True Available: 2 of 3 etcd members are healthy, at least 2 required for etcd quorum\n\
         2 of 3 Machines have healthy control plane components, at least 1 required"
    );
    world.set(1, condition::ETCD_MEMBER, "Unknown");
    assert_eq!(
        shown(&world, "Available"),
        "False NotAvailable: 1 of 3 etcd members are healthy, at least 2 required for etcd quorum"
    );
    let mut world = World::new("abc");
    for machine in 0..3 {
        world.set(machine, condition::SCHEDULER, "False");
    }
    assert!(shown(&world, "Available").contains("0 of 3 Machines have healthy"));
    let mut world = World::new("abc");
    world.control_plane["status"]["conditions"] = json!([]);
    assert_eq!(
        shown(&world, "Available"),
        "False NotAvailable: Control plane certificates are not available"
    );
}

#[test]
fn availability_without_a_member_list_is_unknown_after_two_minutes() {
    let mut world = World::new("abc");
    world.etcd = None;
    assert_eq!(
        shown(&world, "Available"),
        "Unknown InspectionFailed: Failed to get etcd members"
    );
    for (since, status) in [("2026-06-01T11:58:01Z", "False"), ("2026-06-01T11:58:00Z", "Unknown")] {
        world.control_plane["status"]["conditions"] = json!([
            {"type": "CertificatesAvailable", "status": "True"},
            {"type": "Initialized", "status": "True", "lastTransitionTime": since},
        ]);
        assert!(shown(&world, "Available").starts_with(status), "{since}");
    }
    assert_eq!(shown(&World::new("abc").external(), "Available"), "True Available");
}

#[test]
fn availability_needs_members_that_match_the_machines() {
    let mut world = World::new("abc");
    let names = |names: &[&str]| -> serde_json::Value { names.iter().map(|name| json!({"name": name})).collect() };
    let message = "False NotAvailable: The list of etcd members does not match the list of Machines and Nodes";
    for members in [&["n-0", "n-1"][..], &["n-0", "n-1", "n-2", "x"]] {
        world.etcd.as_mut().unwrap()["members"] = names(members);
        assert_eq!(shown(&world, "Available"), message, "{members:?}");
    }
    // The member without a machine is that of the machine that joins.
    world.members();
    world.without_node(2);
    assert!(shown(&world, "Available").starts_with("True Available"));
}

#[test]
fn a_short_failure_is_not_shown() {
    let mut world = World::new("abc");
    world.set(0, condition::SCHEDULER, "False");
    for (since, is_shown) in [("2026-06-01T11:59:50Z", false), ("2026-06-01T11:59:49Z", true)] {
        let conditions = world.machines[0]["status"]["conditions"].as_array_mut().unwrap();
        conditions.last_mut().unwrap()["lastTransitionTime"] = json!(since);
        assert_eq!(shown(&world, "Available") != "True Available", is_shown, "{since}");
    }
}

#[test]
fn a_deletion_shows_what_it_waits_for() {
    let mut world = World::new("abc");
    world.control_plane["metadata"]["deletionTimestamp"] = json!("2026-06-01T11:00:00Z");
    assert_eq!(
        shown(&world, "Deleting"),
        "True WaitingForMachineDeletion: Deleting 3 machine(s)"
    );
    assert!(shown(&world, "ScalingDown").starts_with("True ScalingDown: Scaling down from 3 to 0"));
    assert!(shown(&world, "Available").starts_with("False"));
    world.machines.clear();
    assert_eq!(shown(&world, "Deleting"), "True DeletionCompleted");
}

#[test]
fn the_last_remediation_is_the_one_in_progress_or_the_newest_of_a_machine() {
    let mut world = World::new("abc");
    let record = |machine: &str, at: &str| json!({"machine": machine, "timestamp": at, "retryCount": 0}).to_string();
    world.annotate(0, REMEDIATION_FOR, &record("old-1", "2026-05-01T00:00:00Z"));
    world.annotate(1, REMEDIATION_FOR, &record("old-2", "2026-05-02T00:00:00Z"));
    assert_eq!(computed(&world).last_remediation.unwrap().machine, "old-2");
    let pending = record("m-9", "2026-06-01T11:00:00Z");
    world.control_plane["metadata"]["annotations"] = json!({(REMEDIATION_IN_PROGRESS): pending});
    assert_eq!(computed(&world).last_remediation.unwrap().machine, "m-9");
}

/// The condition of a Machine may be older than the answer of the member.
#[test]
fn w167_a_member_that_does_not_answer_does_not_count_for_the_availability() {
    let mut world = World::new("abc");
    let members = json!([
        {"name": "n-0"}, {"name": "n-1", "healthy": false}, {"name": "n-2", "healthy": false},
    ]);
    world.etcd.as_mut().unwrap()["members"] = members;
    assert_eq!(
        shown(&world, "Available"),
        "False NotAvailable: 1 of 3 etcd members are healthy, at least 2 required for etcd quorum"
    );
}
