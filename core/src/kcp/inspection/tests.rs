use serde_json::{Value, json};

use super::*;
use crate::kcp::observed::ReportedMember;
use crate::kcp::samples::World;

const HEALTHY: [&str; 6] = [
    condition::API_SERVER,
    condition::CONTROLLER_MANAGER,
    condition::SCHEDULER,
    condition::ETCD_POD,
    condition::ETCD_MEMBER,
    condition::LABELS_AND_TAINTS,
];

fn node(name: &str) -> Value {
    json!({
        "metadata": {"name": name, "labels": {"node-role.kubernetes.io/control-plane": ""}},
        "spec": {"taints": [{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}]},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    })
}

fn running() -> Value {
    json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}})
}

/// Everything works on the machines with the Nodes `n-0`, `n-1`, and `n-2`.
fn inspection() -> Inspection {
    let names = ["n-0", "n-1", "n-2"];
    let nodes = names.map(|name| (name.to_owned(), Arc::new(serde_json::from_value(node(name)).unwrap())));
    let pods = names.iter().flat_map(|name| {
        PODS.map(|(component, _)| {
            (
                format!("{component}-{name}"),
                serde_json::from_value(running()).unwrap(),
            )
        })
    });
    let members = names.map(|name| ReportedMember {
        name: name.to_owned(),
        ..ReportedMember::default()
    });
    Inspection {
        nodes: Ok(BTreeMap::from(nodes)),
        pods: Ok(pods.collect()),
        etcd: Ok(EtcdMembers {
            leader: String::from("n-0"),
            members: members.to_vec(),
        }),
    }
}

fn with_node(change: fn(&mut Value)) -> Inspection {
    let (mut inspection, mut changed) = (inspection(), node("n-0"));
    change(&mut changed);
    let nodes = inspection.nodes.as_mut().unwrap();
    nodes.insert(String::from("n-0"), Arc::new(serde_json::from_value(changed).unwrap()));
    inspection
}

fn with_pod(name: &str, pod: Value) -> Inspection {
    let mut inspection = inspection();
    let pods = inspection.pods.as_mut().unwrap();
    pods.insert(name.to_owned(), serde_json::from_value(pod).unwrap());
    inspection
}

/// The conditions of the first machine that are not true, as `Type=Status Reason`.
fn bad(world: &World, inspection: &Inspection) -> Vec<String> {
    let state = world.state();
    let all = conditions(&state, inspection);
    let found = all[0].1.iter().filter(|condition| condition.status != "True");
    found
        .map(|one| format!("{}={} {}", one.type_, one.status, one.reason))
        .collect()
}

fn all(status: &str, reason: &str) -> Vec<String> {
    HEALTHY
        .iter()
        .map(|type_| format!("{type_}={status} {reason}"))
        .collect()
}

#[test]
fn a_machine_that_works_has_only_true_conditions() {
    let state = World::new("abc").state();
    let found = conditions(&state, &inspection());
    assert_eq!(found.len(), 3);
    for (name, conditions) in &found {
        let types: Vec<&str> = conditions.iter().map(|condition| condition.type_).collect();
        assert_eq!(types, HEALTHY, "{name}");
        assert!(
            conditions.iter().all(|condition| condition.status == "True"),
            "{conditions:?}"
        );
    }
    let summary = summary(&state, &found);
    assert!(
        summary
            .iter()
            .all(|one| (one.status, one.reason) == ("True", "Healthy")),
        "{summary:?}"
    );
    assert_eq!(summary.len(), 2);
}

#[test]
fn external_etcd_has_no_conditions() {
    let state = World::new("a").external().state();
    let found = conditions(&state, &inspection());
    let types: Vec<&str> = found[0].1.iter().map(|condition| condition.type_).collect();
    assert_eq!(types, [&HEALTHY[..3], &HEALTHY[5..]].concat());
    assert_eq!(summary(&state, &found).len(), 1);
}

#[test]
fn what_cannot_be_read_is_unknown() {
    let mut down = inspection();
    down.nodes = Err(Failure::ConnectionDown(String::from("no answer")));
    assert_eq!(bad(&World::new("a"), &down), all("Unknown", "ConnectionDown"));
    let mut pods = inspection();
    pods.pods = Err(Failure::InspectionFailed(String::from("forbidden")));
    assert_eq!(bad(&World::new("a"), &pods), all("Unknown", "InspectionFailed")[..4]);
    let mut etcd = inspection();
    etcd.etcd = Err(Failure::InspectionFailed(String::from("no member responds")));
    let world = World::new("a");
    assert_eq!(bad(&world, &etcd), ["EtcdMemberHealthy=Unknown InspectionFailed"]);
    let state = world.state();
    let summary = summary(&state, &conditions(&state, &etcd));
    assert_eq!((summary[1].status, summary[1].reason), ("Unknown", "HealthUnknown"));
}

#[test]
fn a_machine_without_a_node_is_unknown_and_does_not_count_before_it_exists() {
    let mut world = World::new("ab");
    world.without_node(0);
    assert_eq!(bad(&world, &inspection()), all("Unknown", "InspectionFailed"));
    let state = world.state();
    let summary = summary(&state, &conditions(&state, &inspection()));
    assert!(summary.iter().all(|one| one.status == "True"), "{summary:?}");
    let mut gone = inspection();
    gone.nodes.as_mut().unwrap().remove("n-0");
    assert_eq!(bad(&World::new("a"), &gone), all("Unknown", "InspectionFailed"));
}

#[test]
fn reports_of_a_kubelet_that_does_not_respond_are_not_used() {
    let unreachable = with_node(|node| {
        let taint = json!({"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"});
        node["spec"]["taints"].as_array_mut().unwrap().push(taint);
    });
    assert_eq!(
        bad(&World::new("a"), &unreachable),
        all("Unknown", "InspectionFailed")[..4]
    );
    let silent = with_node(|node| node["status"]["conditions"][0]["status"] = json!("Unknown"));
    assert_eq!(bad(&World::new("a"), &silent), all("Unknown", "InspectionFailed")[..4]);
    // A Node that is not ready still reports.
    let not_ready = with_node(|node| node["status"]["conditions"][0]["status"] = json!("False"));
    assert_eq!(bad(&World::new("a"), &not_ready), [""; 0]);
}

#[test]
fn a_pod_runs_or_starts_or_has_failed() {
    let container = |state: Value, last: Value| json!({"status": {"phase": "Running", "containerStatuses": [{"name": "s", "state": state, "lastState": last}]}});
    let waiting = json!({"waiting": {"reason": "CrashLoopBackOff"}});
    let ended = json!({"terminated": {"reason": "Error", "exitCode": 1}});
    for (pod, expected) in [
        (json!({"status": {"phase": "Pending"}}), "False Provisioning"),
        (json!({"status": {"phase": "Running"}}), "False Provisioning"),
        (container(waiting.clone(), ended.clone()), "False Failed"),
        (container(waiting, json!({})), "False Provisioning"),
        (container(ended.clone(), json!({})), "False Failed"),
        (container(json!({}), ended), "False Provisioning"),
        (json!({"status": {"phase": "Failed"}}), "False Failed"),
        (json!({"status": {"phase": "Succeeded"}}), "False Failed"),
        (json!({"status": {"phase": "Unknown"}}), "Unknown InspectionFailed"),
        (json!({}), "Unknown InspectionFailed"),
    ] {
        let inspection = with_pod("kube-scheduler-n-0", pod.clone());
        let expected = format!("SchedulerPodHealthy={expected}");
        assert_eq!(bad(&World::new("a"), &inspection), [expected], "{pod}");
    }
    let mut missing = inspection();
    missing.pods.as_mut().unwrap().remove("etcd-n-0");
    assert_eq!(bad(&World::new("a"), &missing), ["EtcdPodHealthy=False DoesNotExist"]);
}

#[test]
fn a_member_is_healthy_if_it_votes_without_an_alarm_and_responds() {
    let not = |change: fn(&mut ReportedMember)| {
        let mut inspection = inspection();
        change(&mut inspection.etcd.as_mut().unwrap().members[0]);
        bad(&World::new("a"), &inspection)
    };
    let expected = ["EtcdMemberHealthy=False NotHealthy"];
    assert_eq!(not(|member| member.learner = true), expected);
    assert_eq!(not(|member| member.alarms.push(String::from("NOSPACE"))), expected);
    assert_eq!(not(|member| member.healthy = Some(false)), expected);
    assert_eq!(not(|member| member.name = String::from("x")), expected);
    assert_eq!(not(|member| member.healthy = Some(true)), [""; 0]);
}

#[test]
fn the_member_of_a_machine_that_is_being_deleted_counts_until_it_is_removed() {
    let mut world = World::new("abc");
    world.delete(0);
    assert_eq!(bad(&world, &inspection()), all("False", "Deleting")[..4]);
}

#[test]
fn a_node_has_the_label_and_the_taint_of_kubeadm() {
    let expected = ["NodeKubeadmLabelsAndTaintsSet=False NotSet"];
    let unlabelled = with_node(|node| node["metadata"]["labels"] = json!({}));
    assert_eq!(bad(&World::new("a"), &unlabelled), expected);
    let untainted = with_node(|node| node["spec"] = json!({}));
    assert_eq!(bad(&World::new("a"), &untainted), expected);
    // An empty list in the configuration means no taints.
    let mut world = World::new("a");
    for config in world.others.iter_mut().filter(|other| other["kind"] == "KubeadmConfig") {
        config["spec"]["joinConfiguration"]["nodeRegistration"]["taints"] = json!([]);
    }
    assert_eq!(bad(&world, &untainted), [""; 0]);
}

#[test]
fn a_summary_names_the_machines_and_what_is_wrong() {
    let mut broken = with_pod("kube-scheduler-n-1", json!({"status": {"phase": "Failed"}}));
    broken.etcd.as_mut().unwrap().members[2].learner = true;
    let state = World::new("abc").state();
    let summary = summary(&state, &conditions(&state, &broken));
    let shown: Vec<String> = summary
        .iter()
        .map(|one| format!("{}={} {}: {}", one.type_, one.status, one.reason, one.message))
        .collect();
    assert_eq!(
        shown,
        [
            "ControlPlaneComponentsHealthy=False NotHealthy: * Machine m-1: SchedulerPodHealthy: Pod \
             kube-scheduler-n-1 has ended",
            "EtcdClusterHealthy=False NotHealthy: * Machine m-2: EtcdMemberHealthy: etcd member n-2 does not vote yet",
        ]
    );
}
