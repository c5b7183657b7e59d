//! The MachineHealthCheck that a ControlPlane owns.

use super::*;
use crate::api::machine_openshift_io::machine_health_check::MachineHealthCheck;
use crate::control_plane::health_check::{Change, NAME, change, condition, max_unhealthy};

/// The health check after a write, as the API server stores it.
fn stored(change: &Change, before: Option<&MachineHealthCheck>) -> Option<MachineHealthCheck> {
    let object = match change {
        Change::Create(object) => {
            let mut object = object.clone();
            object["metadata"]["uid"] = json!("uid-of-check");
            object["metadata"]["resourceVersion"] = json!("1");
            object
        }
        Change::Patch(patch) => {
            let mut object = json!(before.unwrap());
            assert_eq!(patch["metadata"]["uid"], object["metadata"]["uid"]);
            assert_eq!(
                patch["metadata"]["resourceVersion"],
                object["metadata"]["resourceVersion"]
            );
            json_patch::merge(&mut object, patch);
            object
        }
        Change::Delete(uid, version) => {
            let meta = &before.unwrap().metadata;
            assert_eq!(
                (uid.as_str(), Some(version)),
                (meta.uid(), meta.resource_version.as_ref())
            );
            return None;
        }
    };
    Some(serde_json::from_value(object).unwrap())
}

fn next(world: &World, found: Option<&MachineHealthCheck>) -> Option<Change> {
    change(&world.spec(), &world.state(), found)
}

fn most(world: &World) -> usize {
    max_unhealthy(&world.spec(), &world.state())
}

#[test]
fn a_health_check_is_created_once_and_allows_fewer_than_half() {
    for (replicas, allowed) in [(1, 0), (3, 1), (5, 2), (7, 3)] {
        let world = World::settled(replicas);
        let created = next(&world, None).unwrap();
        let check = stored(&created, None).unwrap();
        assert_eq!(check.metadata.name(), NAME);
        assert_eq!(check.metadata.controller().unwrap().kind, "ControlPlane");
        assert_eq!(check.spec.max_unhealthy, Some(json!(allowed)));
        assert_eq!(next(&world, Some(&check)), None, "a steady state writes nothing");
        assert_eq!(condition(&world.spec(), Some(&check)).reason, "HealthCheckExists");
    }
}

#[test]
fn an_edit_that_weakens_the_health_check_is_reverted_and_other_fields_stay() {
    let world = World::settled(3);
    let good = stored(&next(&world, None).unwrap(), None).unwrap();
    for edit in [
        json!({"spec": {"maxUnhealthy": "100%"}}),
        json!({"spec": {"maxUnhealthy": null}}),
        json!({"spec": {"selector": {"matchLabels": {"a": "b"}}}}),
        json!({"spec": {"selector": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}}),
        json!({"spec": {"unhealthyConditions": []}}),
        json!({"spec": {"nodeStartupTimeout": "1s"}}),
    ] {
        let mut weak = json!(good);
        json_patch::merge(&mut weak, &edit);
        weak["spec"]["remediationTemplate"] = json!({"name": "reboot"});
        let weak: MachineHealthCheck = serde_json::from_value(weak).unwrap();
        let repaired = stored(&next(&world, Some(&weak)).unwrap(), Some(&weak)).unwrap();
        assert_eq!(repaired.spec.max_unhealthy, Some(json!(1)), "{edit}");
        assert_eq!(json!(repaired.spec)["remediationTemplate"]["name"], json!("reboot"));
        assert_eq!(next(&world, Some(&repaired)), None, "{edit}");
    }
}

#[test]
fn a_rollout_and_a_remediation_do_not_add_up() {
    let mut world = World::settled(3);
    world.hosts[0].machine["metadata"]["deletionTimestamp"] = json!("2026-01-05T00:00:00Z");
    assert_eq!(most(&world), 0);
    let mut world = World::settled(5);
    world.hosts[0].machine["metadata"]["deletionTimestamp"] = json!("2026-01-05T00:00:00Z");
    assert_eq!(
        most(&world),
        0,
        "four machines tolerate one loss, and one machine leaves"
    );
    // The larger number counts only when the machines exist.
    let mut world = World::settled(3);
    world.object["spec"]["replicas"] = json!(7);
    assert_eq!(most(&world), 1);
    let mut world = World::settled(7);
    world.object["spec"]["replicas"] = json!(3);
    assert_eq!(most(&world), 1, "the smaller number counts at once");
}

#[test]
fn a_health_check_of_another_owner_is_never_written_to() {
    let world = World::settled(3);
    let mut foreign = stored(&next(&world, None).unwrap(), None).unwrap();
    foreign.metadata.owner_references.clear();
    foreign.spec.max_unhealthy = Some(json!(3));
    assert_eq!(next(&world, Some(&foreign)), None);
    assert_eq!(condition(&world.spec(), Some(&foreign)).reason, "ForeignHealthCheck");
    let mut world = world;
    world.object["spec"]["enableautorepair"] = json!(false);
    assert_eq!(next(&world, Some(&foreign)), None);
}

#[test]
fn without_repairs_the_own_health_check_is_deleted_and_none_is_created() {
    let mut world = World::settled(3);
    let check = stored(&next(&world, None).unwrap(), None).unwrap();
    world.object["spec"]["enableautorepair"] = json!(false);
    let deletion = next(&world, Some(&check)).unwrap();
    assert_eq!(stored(&deletion, Some(&check)), None);
    assert_eq!(next(&world, None), None);
    assert_eq!(condition(&world.spec(), None).reason, "Disabled");
    let mut leaving = check;
    leaving.metadata.deletion_timestamp = Some(Timestamp::UNIX_EPOCH.to_string()).and_then(|at| at.parse().ok());
    assert_eq!(next(&world, Some(&leaving)), None, "it is being deleted already");
}

#[test]
fn a_deleted_control_plane_deletes_its_health_check_also_after_it_lost_its_owner() {
    use crate::control_plane::health_check::leave;

    let mut world = World::settled(3);
    let mut check = stored(&next(&world, None).unwrap(), None).unwrap();
    world.object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let object = serde_json::from_value(world.object.clone()).unwrap();
    let expected = Some(Change::Delete("uid-of-check".into(), "1".into()));
    assert_eq!(leave(&object, Some(&check)), expected);
    // The garbage collector removes the owner first, after an orphan deletion.
    check.metadata.owner_references.clear();
    assert_eq!(leave(&object, Some(&check)), expected);
    check.metadata.annotations.clear();
    assert_eq!(leave(&object, Some(&check)), None, "a health check of a user stays");
}
