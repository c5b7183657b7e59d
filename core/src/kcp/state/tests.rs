use serde_json::json;

use super::*;
use crate::kcp::observed::SnapshotError;
use crate::kcp::samples::{World, now};

#[test]
fn a_snapshot_contains_the_objects_of_one_cluster() {
    let mut world = World::new("abc");
    let mut worker = world.machines[0].clone();
    worker["metadata"]["name"] = json!("w-0");
    worker["metadata"]["uid"] = json!("w-0-uid");
    worker["metadata"]["labels"] = json!({"cluster.x-k8s.io/cluster-name": "c"});
    let mut other = world.machines[0].clone();
    other["metadata"]["name"] = json!("o-0");
    other["metadata"]["uid"] = json!("o-0-uid");
    other["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"] = json!("other");
    other["spec"]["clusterName"] = json!("other");
    let mut elsewhere = world.machines[0].clone();
    elsewhere["metadata"]["name"] = json!("e-0");
    elsewhere["metadata"]["namespace"] = json!("elsewhere");
    world.machines.extend([worker, other, elsewhere]);
    world.machines[1]["metadata"]["ownerReferences"] = json!([]);
    world.machines[2]["metadata"]["ownerReferences"][0]["name"] = json!("another");
    let state = world.state();
    let names: Vec<&str> = state.machines.iter().map(MachineState::name).collect();
    assert_eq!(
        (names, state.workers.as_slice()),
        (vec!["m-0"], ["w-0".to_owned()].as_slice())
    );
    assert_eq!(state.adoptable.len(), 1);
    assert_eq!(state.foreign, ["m-2"]);
    assert_eq!(state.failure_domains, ["a", "b", "c"]);
    assert_eq!(state.members().unwrap().len(), 3);
}

#[test]
fn a_snapshot_needs_exactly_one_control_plane_that_can_be_read() {
    let world = World::new("abc");
    let observed = |objects: &[serde_json::Value]| Observed::of_objects(objects).map(|_| ());
    assert_eq!(observed(&[]), Err(SnapshotError::Missing(String::new())));
    let two = [world.control_plane.clone(), world.control_plane.clone()];
    assert_eq!(observed(&two), Err(SnapshotError::Several("cp, cp".to_owned())));
    let mut machine = world.machines[0].clone();
    machine["apiVersion"] = json!("cluster.x-k8s.io/v1beta1");
    let error = observed(&[world.control_plane, machine]).unwrap_err().to_string();
    assert_eq!(
        error,
        "Machine \"m-0\" must be readable: apiVersion must be cluster.x-k8s.io/v1beta2"
    );
}

#[test]
fn v32_an_object_that_is_given_twice_counts_once_and_a_conflict_is_an_error() {
    let world = World::new("abc");
    let mut objects = world.objects();
    objects.extend(world.machines.clone());
    let observed = Observed::of_objects(&objects).unwrap();
    assert_eq!(observed.machines.len(), 3);

    let conflict = |object: serde_json::Value| {
        let mut objects = world.objects();
        objects.push(object);
        Observed::of_objects(&objects).map(|_| ()).unwrap_err().to_string()
    };
    let mut machine = world.machines[0].clone();
    machine["status"]["conditions"] = json!([]);
    let expected = "must be given once: Machine \"m-0\" is given twice with different contents";
    assert!(conflict(machine).contains(expected));
    let mut cluster = world.cluster.clone();
    cluster["spec"]["paused"] = json!(true);
    assert!(conflict(cluster).contains("Cluster \"c\" is given twice"));
    let mut etcd = world.etcd.clone().unwrap();
    etcd["leader"] = json!("n-1");
    assert!(conflict(etcd).contains("EtcdMembers \"c\" is given twice"));
    let mut renamed = world.machines[0].clone();
    renamed["metadata"]["name"] = json!("m-9");
    let mut objects = world.objects();
    objects.push(renamed);
    let (first, last) = (2, objects.len() - 1);
    let error = Observed::of_objects(&objects).map(|_| ()).unwrap_err();
    assert!(format!("{error:?}").contains(&format!("places: [{first}, {last}]")));
}

#[test]
fn v34_an_unknown_field_of_etcd_members_is_an_error_and_no_members_are_unknown_members() {
    let mut world = World::new("abc");
    world.etcd = Some(json!({"apiVersion": "capstan.dev/v1", "kind": "EtcdMembers",
        "members": [{"name": "n-0", "lerner": true}]}));
    let error = Observed::of_objects(&world.objects()).map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("lerner"), "{error}");
    world.etcd = Some(json!({"apiVersion": "capstan.dev/v1", "kind": "EtcdMembers", "member": []}));
    let error = Observed::of_objects(&world.objects()).map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("unknown field `member`"), "{error}");
    for members in [json!([]), json!(null)] {
        world.etcd = Some(json!({"apiVersion": "capstan.dev/v1", "kind": "EtcdMembers", "members": members}));
        assert_eq!(Observed::of_objects(&world.objects()).unwrap().etcd, None);
    }
}

#[test]
fn v35_a_machine_pool_of_the_cluster_is_a_worker() {
    let mut world = World::new("abc");
    let pool = |name: &str, cluster: &str| {
        json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachinePool",
            "metadata": {"name": name, "namespace": "ns"}, "spec": {"clusterName": cluster}})
    };
    world.others.extend([pool("p-0", "c"), pool("p-1", "other")]);
    assert_eq!(world.state().workers, ["p-0"]);
}

#[test]
fn a_member_is_healthy_by_the_condition_of_its_machine_and_by_its_alarms() {
    let mut world = World::new("abc");
    world.set(1, condition::ETCD_MEMBER, "Unknown");
    world.etcd.as_mut().unwrap()["members"] = json!([
        {"name": "n-0"}, {"name": "n-1"}, {"name": "n-2", "healthy": false}, {"name": "x"},
        {"name": "y", "alarms": ["NOSPACE"]}, {"name": "", "isLearner": true},
    ]);
    let members = world.state().members().unwrap();
    let healthy: Vec<bool> = members.iter().map(|member| member.is_healthy).collect();
    assert_eq!(healthy, [true, false, false, true, false, true]);
    assert!(members[5].is_learner);
    assert_eq!(World::new("abc").external().state().members(), None);
}

#[test]
fn w170_an_alarm_of_a_member_with_a_machine_counts() {
    let mut world = World::new("abc");
    world.etcd.as_mut().unwrap()["members"][1]["alarms"] = json!(["CORRUPT"]);
    let members = world.state().members().unwrap();
    let healthy: Vec<bool> = members.iter().map(|member| member.is_healthy).collect();
    assert_eq!(healthy, [true, false, true]);
}

#[test]
fn the_member_of_a_machine_without_a_node_is_found_by_the_provider_id() {
    let mut world = World::new("abc");
    world.machines[0]["status"]["nodeRef"] = json!({});
    assert_eq!(world.state().machines[0].member.as_deref(), Some("n-0"));
    world.machines[0]["spec"]["providerID"] = json!("");
    assert_eq!(
        world.state().machines[0].member.as_deref(),
        Some("n-0"),
        "infrastructure machine"
    );
    world.without_node(0);
    assert_eq!(world.state().machines[0].member, None);
}

#[test]
fn a_version_is_pending_until_the_control_plane_or_its_upgrade_step_has_it() {
    let mut world = World::new("a");
    assert_eq!(world.state().pending_version(), None);
    world.cluster["spec"]["topology"] = json!({"version": "v1.32.0"});
    assert_eq!(world.state().pending_version(), Some("v1.32.0"));
    world.cluster["metadata"]["annotations"] = json!({"topology.internal.cluster.x-k8s.io/upgrade-step": "v1.31.0"});
    assert_eq!(world.state().pending_version(), Some("v1.31.0"));
    world.cluster["metadata"]["annotations"] = json!({"topology.internal.cluster.x-k8s.io/upgrade-step": "v1.30.0"});
    assert_eq!(world.state().pending_version(), None);
}

#[test]
fn a_max_surge_that_is_not_one_creates_no_additional_machine() {
    let surge = |value: serde_json::Value| {
        let mut world = World::new("abc");
        world.spec()["rollout"] = json!({"strategy": {"rollingUpdate": {"maxSurge": value}}});
        State::observe(&world.observed(), now()).max_surge()
    };
    assert_eq!(surge(json!(1)), 1);
    assert_eq!(surge(json!("1")), 1);
    assert_eq!(surge(json!(null)), 1, "the default");
    for zero in [json!(0), json!("0"), json!("50%"), json!("abc"), json!(2)] {
        assert_eq!(surge(zero.clone()), 0, "{zero}");
    }
}

#[test]
fn a_control_plane_without_an_owner_belongs_to_the_cluster_that_refers_to_it() {
    let mut world = World::new("abc");
    world.control_plane["metadata"]["ownerReferences"] = json!([]);
    assert_eq!(world.state().cluster_name, "");
    world.cluster["spec"]["controlPlaneRef"] = json!({
        "apiGroup": "controlplane.cluster.x-k8s.io", "kind": "KubeadmControlPlane", "name": "cp",
    });
    let state = world.state();
    assert_eq!((state.cluster_name.as_str(), state.machines.len()), ("c", 3));
}
