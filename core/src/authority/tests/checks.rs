//! MachineHealthChecks of both APIs: never do both of them act.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::world::World;
use crate::authority::PAUSED_BY_SYNC;
use crate::authority::pair::{Decision, Part};
use crate::authority::spec::{Api, Kind};

const PAUSE: &str = "cluster.x-k8s.io/paused";

fn world(authority: Api) -> World {
    let mut world = World {
        kind: Kind::MachineHealthCheck,
        ..World::default()
    };
    let check = json!({"apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineHealthCheck",
        "metadata": {"name": "a", "namespace": "openshift-machine-api",
            "labels": {"machine.openshift.io/cluster-api-cluster": "prod-x7k2p"}},
        "spec": {"authoritativeAPI": authority.as_str(), "maxUnhealthy": "40%",
            "selector": {"matchLabels": {"set": "s"}},
            "unhealthyConditions": [{"type": "Ready", "status": "False", "timeout": "300s"}]}});
    world.create(Part::MachineApi, check);
    world
}

fn settled(authority: Api) -> World {
    let mut world = world(authority);
    assert_eq!(world.settle(), Decision::Idle);
    assert_eq!(world.synchronized().0, "True", "{}", world.synchronized().1);
    world
}

fn pauses(world: &World) -> [Value; 2] {
    [Part::MachineApi, Part::ClusterApi].map(|part| world.get(part).unwrap()["metadata"]["annotations"][PAUSE].clone())
}

#[test]
fn exactly_one_of_the_two_checks_is_paused() {
    let by_sync = json!(PAUSED_BY_SYNC);
    let world = settled(Api::MachineApi);
    assert_eq!(pauses(&world), [Value::Null, by_sync.clone()]);
    let world = settled(Api::ClusterApi);
    assert_eq!(pauses(&world), [by_sync, Value::Null]);
}

#[test]
fn a_check_is_copied_and_its_status_follows() {
    let mut world = settled(Api::MachineApi);
    let mirror = world.get(Part::ClusterApi).unwrap();
    assert_eq!(mirror["spec"]["clusterName"], "prod-x7k2p");
    assert_eq!(
        mirror["spec"]["checks"]["unhealthyNodeConditions"],
        json!([{"type": "Ready", "status": "False", "timeoutSeconds": 300}])
    );
    world.set_status(
        Part::MachineApi,
        &json!({"status": {"expectedMachines": 3, "currentHealthy": 2}}),
    );
    world.change(Part::MachineApi, |check| check["spec"]["maxUnhealthy"] = json!(1));
    world.settle();
    let mirror = world.get(Part::ClusterApi).unwrap();
    assert_eq!(mirror["status"]["currentHealthy"], 2);
    assert_eq!(
        mirror["spec"]["remediation"]["triggerIf"]["unhealthyLessThanOrEqualTo"],
        1
    );
    world.request(Api::ClusterApi);
    world.settle();
    world.change(Part::ClusterApi, |check| {
        check["spec"]["remediation"]["triggerIf"]["unhealthyLessThanOrEqualTo"] = json!("20%");
    });
    world.settle();
    assert_eq!(world.get(Part::MachineApi).unwrap()["spec"]["maxUnhealthy"], "20%");
}

#[test]
fn a_field_of_cluster_api_alone_blocks_the_way_back() {
    let mut world = settled(Api::ClusterApi);
    world.change(Part::ClusterApi, |check| {
        check["spec"]["remediation"]["triggerIf"] = json!({"unhealthyInRange": "[1-3]"});
    });
    world.request(Api::MachineApi);
    world.settle();
    let (status, message) = world.synchronized();
    assert_eq!(status, "False");
    assert!(
        message.starts_with("spec.remediation.triggerIf.unhealthyInRange: "),
        "{message}"
    );
    assert_eq!(world.status()["authoritativeAPI"], "ClusterAPI");
}

#[test]
fn a_pause_of_a_user_delays_the_migration_of_a_check() {
    let mut world = settled(Api::MachineApi);
    world.change(Part::MachineApi, |check| {
        check["metadata"]["annotations"][PAUSE] = json!("");
    });
    world.request(Api::ClusterApi);
    let last = world.settle();
    assert!(
        matches!(&last, Decision::Wait(why) if why.ends_with("has the annotation cluster.x-k8s.io/paused")),
        "{last:?}"
    );
    assert_eq!(pauses(&world)[0], "", "the pause of the user stays");
}

#[test]
fn the_deletion_of_a_check_follows_the_rule_for_parents() {
    for (authority, deleted, left) in [
        (Api::MachineApi, Part::MachineApi, vec![]),
        (Api::ClusterApi, Part::ClusterApi, vec![]),
        (
            Api::MachineApi,
            Part::ClusterApi,
            vec![Part::MachineApi, Part::ClusterApi],
        ),
        (Api::ClusterApi, Part::MachineApi, vec![Part::ClusterApi]),
    ] {
        let mut world = settled(authority);
        world.delete(deleted);
        world.settle();
        assert_eq!(world.existing(), left, "{authority:?} {deleted:?}");
        for part in left {
            assert!(!world.object(part).unwrap().member.deleting);
        }
        if authority == Api::ClusterApi && deleted == Part::MachineApi {
            let check = world.object(Part::ClusterApi).unwrap();
            assert!(!check.member.is_paused(), "it works on alone");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// The world checks after every write that not both checks act.
    #[test]
    fn requests_at_any_time_end_where_the_last_one_wants(
        first in prop_oneof![Just(Api::MachineApi), Just(Api::ClusterApi)],
        steps in prop::collection::vec((0_usize..4, 0_u8..12), 0..60),
    ) {
        let mut world = world(first);
        for (actor, event) in steps {
            match event {
                0 => world.request(Api::MachineApi),
                1 => world.request(Api::ClusterApi),
                2..=5 => { world.act(actor); }
                _ => if let Decision::Write(write) = world.decide() {
                    prop_assert!(world.write(&write));
                }
            }
        }
        prop_assert_eq!(world.settle(), Decision::Idle);
        let requested = world.get(Part::MachineApi).unwrap()["spec"]["authoritativeAPI"].clone();
        prop_assert_eq!(&world.status()["authoritativeAPI"], &requested);
        prop_assert_eq!(pauses(&world).iter().filter(|pause| pause.is_null()).count(), 1);
    }
}
