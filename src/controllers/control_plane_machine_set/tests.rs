//! What the controller writes and reports, reconcile by reconcile.

mod fake;
mod interference;
mod pending_creates;

use std::sync::Arc;
use std::time::Duration;

use capstan_core::api::config_openshift_io::cluster_operator;
use capstan_core::api::machine_openshift_io::control_plane_machine_set::{ControlPlaneMachineSet, NAME};
use capstan_core::api::machine_openshift_io::machine::Machine;
use serde_json::{Value, json};

use crate::runtime::{Reconcile as _, Reconciler};
use fake::{Controller, Fake, MACHINE, NODE, OPERATOR, SET, figures, parsed, shared};

/// B21: the operator of OpenShift counts fifteen equal errors in a row, in memory. Capstan counts
/// time, whatever the text is, and a restart does not reset the condition.
#[tokio::test(start_paused = true)]
async fn b21_an_error_that_lasts_becomes_a_condition_and_survives_a_restart() {
    let (fake, mut controller) = settled().await;
    fake.want("n2-standard-8");
    for attempt in 0..9 {
        fake.refuse(Some(&format!("quota exceeded, request {attempt}")));
        fake.reconcile(&mut controller).await;
        fake.reconcile(&mut controller).await;
        let error = fake
            .conditions(SET, NAME)
            .contains(&"Error=True/ContinuousErrors".to_owned());
        assert_eq!(error, attempt == 8, "after {} s", attempt * 10);
        fake.pass(10);
    }
    let set: ControlPlaneMachineSet = parsed(fake.object(SET, NAME));
    let conditions = set.status.unwrap().conditions;
    let error = conditions.iter().find(|there| there.type_ == "Error").unwrap();
    assert!(
        error.message.contains("creating Machine") && error.message.contains("request 8"),
        "{error:?}"
    );
    fake.reconcile(&mut controller).await;
    let operator = fake.conditions(OPERATOR, cluster_operator::NAME);
    assert!(
        operator.contains(&"Upgradeable=False/ContinuousErrors".to_owned()),
        "{operator:?}"
    );
    assert!(fake.events("Failed") >= 1);
    let (mut next, _) = fake.controller();
    fake.reconcile(&mut next).await;
    fake.reconcile(&mut next).await;
    assert!(
        fake.conditions(SET, NAME)
            .contains(&"Error=True/ContinuousErrors".to_owned()),
        "a new process"
    );
    fake.refuse(None);
    fake.settle(&mut next).await;
    assert!(
        fake.conditions(SET, NAME)
            .contains(&"Error=False/AsExpected".to_owned()),
        "{:?}",
        fake.conditions(SET, NAME)
    );
    let operator = fake.conditions(OPERATOR, cluster_operator::NAME);
    assert!(
        operator.contains(&"Upgradeable=True/AsExpected".to_owned()),
        "{operator:?}"
    );
}

/// A settled set whose template changed, and the machine that replaces the first one.
async fn with_replacement() -> (Fake, Controller, String) {
    let (fake, mut controller) = settled().await;
    fake.want("n2-standard-8");
    fake.settle(&mut controller).await;
    let name = fake.made();
    (fake, controller, name)
}

/// A machine gets a node that is ready.
fn run(fake: &Fake, name: &str) {
    fake.put(
        NODE,
        name,
        json!({"metadata": {"name": name, "labels": {"node-role.kubernetes.io/control-plane": ""}},
            "status": {"conditions": [{"type": "Ready", "status": "True",
                "lastTransitionTime": "2026-01-01T11:00:00Z"}]}}),
    );
    fake.edit(MACHINE, name, |machine| {
        machine["status"] = json!({"phase": "Running", "nodeRef": {"name": name}});
    });
}

/// B23: a deletion names the object that was observed.
#[tokio::test(start_paused = true)]
async fn b23_a_deletion_carries_uid_and_version_of_the_observed_machine() {
    let (fake, mut controller, name) = with_replacement().await;
    run(&fake, &name);
    let old = fake.object(MACHINE, "c-master-0").unwrap()["metadata"]["resourceVersion"].clone();
    fake.reconcile(&mut controller).await;
    let (_, object, options) = fake.writes().into_iter().find(|(verb, ..)| *verb == "delete").unwrap();
    assert_eq!(object, "Machine c-master-0");
    assert_eq!(
        options["preconditions"],
        json!({"uid": "c-master-0", "resourceVersion": old})
    );
    assert_eq!(options["propagationPolicy"], "Background");
}

#[tokio::test(start_paused = true)]
async fn s5_a_status_field_that_the_crd_drops_is_not_written_again() {
    for pruned in [&["machines"][..], &["selector"], &["machines", "selector"]] {
        let fake = Fake::new();
        fake.world(|world| world.pruned = pruned);
        let (mut controller, _) = fake.controller();
        fake.settle(&mut controller).await;
        let writes = fake.writes().len();
        for field in pruned {
            assert!(fake.object(SET, NAME).unwrap()["status"].get(field).is_none());
        }
        for _ in 0..5 {
            fake.reconcile(&mut controller).await;
        }
        assert_eq!(fake.writes().len(), writes, "{pruned:?}");
    }
}

/// Melee seed 990006829: a replica was paused for eight minutes between its live read and an
/// adoption. The set was deleted and created again in the meantime, and the garbage collector
/// deleted the machine, because its owner did not exist.
#[tokio::test(start_paused = true)]
async fn s12_a_replica_that_was_paused_for_a_minute_reads_again_before_it_adopts() {
    let (fake, mut controller) = settled().await;
    for index in 0..2 {
        fake.edit(MACHINE, &format!("c-master-{index}"), |machine| {
            machine["metadata"].as_object_mut().unwrap().remove("ownerReferences");
        });
    }
    let adopted = || {
        let machines = fake.all::<Machine>(MACHINE).into_iter();
        let machines = machines.filter_map(|machine| machine.content.ok());
        machines
            .filter(|machine| machine.metadata.controller().is_some())
            .count()
    };
    // The answer to the first adoption takes a minute, so that the live read is too old for the
    // second adoption.
    fake.world(|world| world.stall = Duration::from_secs(60));
    fake.reconcile(&mut controller).await;
    assert_eq!(adopted(), 2);
    fake.world(|world| world.stall = Duration::ZERO);
    fake.settle(&mut controller).await;
    assert_eq!(adopted(), 3);
}

#[tokio::test(start_paused = true)]
async fn unchanged_parts_of_the_cluster_operator_are_not_sent_with_every_condition() {
    let (fake, mut controller) = settled().await;
    let complete = fake.object(OPERATOR, cluster_operator::NAME).unwrap()["status"].clone();
    assert!(!complete["versions"].as_array().unwrap().is_empty(), "{complete}");
    fake.want("n2-standard-8");
    fake.settle(&mut controller).await;
    let of_operator = |(_, object, content): (&str, String, Value)| object.starts_with(OPERATOR).then_some(content);
    let last = fake.writes().into_iter().filter_map(of_operator).next_back().unwrap();
    let fields: Vec<&String> = last["status"].as_object().unwrap().keys().collect();
    assert_eq!(fields, ["conditions"], "{last}");
    let status = fake.object(OPERATOR, cluster_operator::NAME).unwrap()["status"].clone();
    assert_eq!(status["versions"], complete["versions"]);
    // A user removes it, and it is written again as a whole.
    fake.edit(OPERATOR, cluster_operator::NAME, |operator| {
        operator["status"]["versions"] = json!([]);
    });
    fake.settle(&mut controller).await;
    let status = fake.object(OPERATOR, cluster_operator::NAME).unwrap()["status"].clone();
    assert_eq!(status["versions"], complete["versions"]);
}

#[tokio::test(start_paused = true)]
async fn the_status_lists_what_each_machine_waits_for_and_drops_deleted_machines() {
    let fake = Fake::new();
    fake.edit(SET, NAME, |set| {
        set["metadata"]["annotations"] = json!({"capstan.dev/paused-rollout": ""});
    });
    let (mut controller, _) = fake.controller();
    fake.settle(&mut controller).await;
    fake.want("n2-standard-8");
    fake.settle(&mut controller).await;
    let machines = fake.object(SET, NAME).unwrap()["status"]["machines"].clone();
    assert_eq!(machines[1]["waitsFor"], "Pause", "{machines}");
    for index in 0..3 {
        let name = format!("c-master-{index}");
        fake.world(|world| {
            world.objects.remove(&(MACHINE, name.clone()));
            world.objects.remove(&(NODE, name));
        });
    }
    fake.settle(&mut controller).await;
    assert!(fake.object(SET, NAME).unwrap()["status"]["machines"].is_null());
}

#[tokio::test(start_paused = true)]
async fn an_invalid_set_is_reported_and_counted_by_its_reason() {
    let fake = Fake::new();
    fake.edit(SET, NAME, |set| set["spec"]["strategy"] = json!({"type": "Recreate"}));
    let (mut controller, registry) = fake.controller();
    fake.settle(&mut controller).await;
    assert!(
        fake.conditions(SET, NAME)
            .contains(&"Degraded=True/InvalidStrategy".to_owned())
    );
    assert_eq!(fake.events("InvalidStrategy"), 1);
    let text = figures(&registry);
    assert!(
        text.contains(r#"capstan_degraded{reason="InvalidStrategy"} 1"#),
        "{text}"
    );
    assert!(!text.contains("InvalidSpec"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn an_undecodable_set_is_reported_in_its_conditions_and_nothing_else_changes() {
    let fake = Fake::new();
    let (mut controller, registry) = fake.controller();
    fake.settle(&mut controller).await;
    fake.edit(SET, NAME, |set| {
        set["spec"]["replicas"] = json!("three");
        set["status"]["conditions"]
            .as_array_mut()
            .unwrap()
            .push(json!({"type": "Theirs", "status": "True",
            "reason": "Mine", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}));
    });
    let before = fake.writes().len();
    fake.settle(&mut controller).await;
    let writes = fake.writes().split_off(before);
    let status: Vec<&Value> = writes
        .iter()
        .filter(|(verb, object, _)| *verb == "status" && object.contains(SET))
        .map(|(.., content)| content)
        .collect();
    assert_eq!(status.len(), 1, "{writes:?}");
    let fields: Vec<&String> = status[0]["status"].as_object().unwrap().keys().collect();
    assert_eq!(fields, ["conditions"]);
    let conditions = fake.conditions(SET, NAME);
    for condition in [
        "Degraded=True/UnparsableObjects",
        "Theirs=True/Mine",
        "Available=True/AllReplicasAvailable",
    ] {
        assert!(conditions.contains(&condition.to_owned()), "{conditions:?}");
    }
    assert!(
        fake.conditions(OPERATOR, cluster_operator::NAME)
            .contains(&"Degraded=True/UnparsableObjects".to_owned())
    );
    assert!(
        fake.conditions(OPERATOR, cluster_operator::NAME)
            .contains(&"Upgradeable=False/UnparsableObjects".to_owned())
    );
    assert_eq!(fake.events("UnparsableObjects"), 1);
    assert!(figures(&registry).contains(r#"capstan_degraded{reason="UnparsableObjects"} 1"#));
    // Once corrected, the set is reconciled as before.
    fake.edit(SET, NAME, |set| set["spec"]["replicas"] = json!(3));
    fake.settle(&mut controller).await;
    assert!(
        fake.conditions(SET, NAME)
            .contains(&"Degraded=False/AsExpected".to_owned())
    );
}

#[tokio::test(start_paused = true)]
async fn an_undecodable_set_releases_its_machines_when_it_is_deleted() {
    let fake = Fake::new();
    let (mut controller, _) = fake.controller();
    fake.edit(SET, NAME, |set| {
        set["spec"]["replicas"] = json!("three");
        set["metadata"]["deletionTimestamp"] = json!("2026-01-01T12:00:00Z");
    });
    fake.settle(&mut controller).await;
    assert!(fake.object(SET, NAME).is_none());
    for index in 0..3 {
        let machine: Machine = parsed(fake.object(MACHINE, &format!("c-master-{index}")));
        assert!(machine.metadata.owner_references.is_empty() && !machine.metadata.is_deleting());
    }
}

#[tokio::test(start_paused = true)]
async fn a_set_that_cannot_be_deleted_reports_the_finalizer_that_holds_it() {
    let (fake, mut controller) = settled().await;
    fake.edit(SET, NAME, |set| {
        set["metadata"]["deletionTimestamp"] = json!("2026-01-01T12:00:00Z");
        set["metadata"]["finalizers"]
            .as_array_mut()
            .unwrap()
            .push(json!("example.com/mine"));
    });
    fake.settle(&mut controller).await;
    let set: ControlPlaneMachineSet = parsed(fake.object(SET, NAME));
    assert_eq!(set.metadata.finalizers, ["example.com/mine"]);
    let conditions = set.status.unwrap().conditions;
    let progressing = conditions.iter().find(|there| there.type_ == "Progressing").unwrap();
    assert_eq!(progressing.reason, "Deleting");
    assert!(
        progressing.message.contains("example.com/mine"),
        "{}",
        progressing.message
    );
}

#[tokio::test(start_paused = true)]
async fn no_metric_outlives_the_set_or_the_leadership() {
    let fake = Fake::new();
    fake.edit(SET, NAME, |set| {
        set["metadata"]["annotations"] = json!({"capstan.dev/progress-deadline": "30m"});
    });
    let (mut controller, registry) = fake.controller();
    fake.settle(&mut controller).await;
    fake.want("n2-standard-8");
    fake.settle(&mut controller).await;
    let name = fake.made();
    fake.edit(MACHINE, &name, |machine| {
        machine["metadata"]["creationTimestamp"] = json!("2026-01-01T12:00:00Z");
    });
    fake.pass(3600);
    fake.reconcile(&mut controller).await;
    let text = figures(&registry);
    for line in [
        "capstan_rollout_overdue 1",
        r#"capstan_control_plane_machines{state="all"} 4"#,
        r#"capstan_rollout_waits{reason="MachineReady"} 1"#,
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    let nothing = |text: &str| {
        for name in [
            "capstan_control_plane_machines{",
            "capstan_rollout_waits{",
            "capstan_degraded{",
        ] {
            assert!(!text.contains(name), "{text}");
        }
        assert!(
            text.contains("capstan_rollout_overdue 0") && text.contains("capstan_degraded_since_seconds 0"),
            "{text}"
        );
    };
    fake.world(|world| world.objects.remove(&(SET, NAME.to_owned())));
    fake.reconcile(&mut controller).await;
    nothing(&figures(&registry));
    let other = Fake::new();
    let (shared, registry) = shared("test");
    let shared = Arc::new(shared);
    let mut controller = Reconciler::new(Arc::clone(&shared), other.clone(), shared.controller.object());
    other.settle(&mut controller).await;
    assert!(figures(&registry).contains("capstan_control_plane_machines{"));
    shared.controller.leadership(false);
    nothing(&figures(&registry));
}

/// Seed 97357: an outdated machine was deleted before it was known whether its replacement had been
/// created. The index was filled under another name, and then the first creation arrived (C1).
#[tokio::test(start_paused = true)]
async fn an_unanswered_creation_is_repeated_under_the_same_name() {
    let fake = Fake::new();
    let (mut controller, _registry) = fake.controller();
    fake.settle(&mut controller).await;
    fake.world(|world| world.silent = true);
    fake.edit(MACHINE, "c-master-1", |machine| {
        machine["metadata"]["deletionTimestamp"] = json!("2026-01-01T12:00:00Z");
        machine["metadata"]["finalizers"] = json!(["machine.machine.openshift.io"]);
    });
    fake.reconcile(&mut controller).await;
    let asked = fake
        .writes()
        .into_iter()
        .rev()
        .find(|(verb, ..)| *verb == "unanswered create");
    let (_, asked, _) = asked.expect("a replacement is requested");
    fake.world(|world| {
        world.silent = false;
        world.objects.remove(&(MACHINE, "c-master-1".to_owned()));
        world.objects.remove(&(NODE, "c-master-1".to_owned()));
    });
    fake.reconcile(&mut controller).await;
    assert_eq!(format!("Machine {}", fake.made()), asked);
    // The second request created it. The first may create it again once it is gone, but not for
    // ever. After that the next machine of the index has a name of its own.
    let made = fake.made();
    for (passed, again) in [(0, true), (200, false)] {
        fake.reconcile(&mut controller).await;
        tokio::time::advance(Duration::from_secs(passed)).await;
        fake.world(|world| {
            world.writes.clear();
            world.objects.remove(&(MACHINE, made.clone()));
        });
        fake.reconcile(&mut controller).await;
        assert_eq!(fake.made() == made, again);
    }
}

/// Sets a field of the provider spec in the template.
fn set_in_template(fake: &Fake, field: &str, value: &Value) {
    fake.edit(SET, NAME, |set| {
        let template = &mut set["spec"]["template"]["machines_v1beta1_machine_openshift_io"];
        template["spec"]["providerSpec"]["value"][field] = value.clone();
    });
}

/// Fails unless the set has a condition, such as `Degraded=True/StrayedMachines`.
fn assert_condition(fake: &Fake, condition: &str) {
    let conditions = fake.conditions(SET, NAME);
    assert!(conditions.contains(&condition.to_owned()), "{conditions:?}");
}

/// A control plane in its steady state, and the controller that observed it.
async fn settled() -> (Fake, Controller) {
    let fake = Fake::new();
    let (mut controller, _) = fake.controller();
    fake.settle(&mut controller).await;
    (fake, controller)
}

async fn reconcile_every_ten_seconds(fake: &Fake, controller: &mut Controller, times: usize) {
    for _ in 0..times {
        fake.reconcile(controller).await;
        fake.pass(10);
    }
}

fn created(fake: &Fake) -> usize {
    let writes = fake.writes().into_iter();
    writes
        .filter(|(verb, object, _)| *verb == "create" && object.starts_with(MACHINE))
        .count()
}

#[tokio::test(start_paused = true)]
async fn s1_one_dry_run_shows_that_a_template_is_stored_as_its_machines_are() {
    let fake = Fake::new();
    fake.world(|world| world.webhook = |value| drop(value.as_object_mut().unwrap().remove("gcpMetadata")));
    let (mut controller, _) = fake.controller();
    fake.settle(&mut controller).await;
    assert_eq!(fake.world(|world| world.tried), 0, "no machine is outdated");
    set_in_template(&fake, "gcpMetadata", &json!([{"key": "k", "value": "v"}]));
    fake.settle(&mut controller).await;
    for _ in 0..3 {
        fake.reconcile(&mut controller).await;
    }
    assert_eq!(fake.world(|world| world.tried), 1);
    assert_eq!(created(&fake), 0);
    assert_condition(&fake, "Progressing=False/AllReplicasUpdated");
}

#[tokio::test(start_paused = true)]
async fn s1_a_template_that_is_not_stored_starts_no_rollout_and_degrades_the_set() {
    let fake = Fake::new();
    fake.world(|world| world.webhook = |value| drop(value.as_object_mut().unwrap().remove("gcpMetadata")));
    let (mut controller, _) = fake.controller();
    fake.settle(&mut controller).await;
    set_in_template(&fake, "gcpMetadata", &json!([{"key": "k", "value": "v"}]));
    fake.want("n2-standard-8");
    fake.settle(&mut controller).await;
    assert_eq!(created(&fake), 0);
    assert_condition(&fake, "Degraded=True/TemplateNotStored");
    // Without the field the rollout starts.
    set_in_template(&fake, "gcpMetadata", &Value::Null);
    fake.settle(&mut controller).await;
    assert_eq!(created(&fake), 1);
}

#[tokio::test(start_paused = true)]
async fn s1_a_rollout_starts_once_the_webhook_that_dropped_a_field_is_corrected() {
    let fake = Fake::new();
    fake.world(|world| world.webhook = |value| drop(value.as_object_mut().unwrap().remove("gcpMetadata")));
    let (mut controller, _) = fake.controller();
    fake.settle(&mut controller).await;
    set_in_template(&fake, "gcpMetadata", &json!([{"key": "k", "value": "v"}]));
    fake.want("n2-standard-8");
    fake.settle(&mut controller).await;
    let requeue = fake.reconcile(&mut controller).await.requeue_at;
    assert!(
        requeue.is_some(),
        "the API server is tried again although nothing changes"
    );
    let tried = fake.world(|world| world.tried);
    fake.world(|world| world.webhook = |_| {});
    fake.pass(61);
    tokio::time::advance(Duration::from_secs(61)).await;
    fake.settle(&mut controller).await;
    assert_eq!(fake.world(|world| world.tried), tried + 1);
    assert_eq!(created(&fake), 1);
}

#[tokio::test(start_paused = true)]
async fn a_field_that_only_the_api_server_knows_starts_a_rollout() {
    let (fake, mut controller) = settled().await;
    set_in_template(&fake, "newField", &json!(1));
    fake.settle(&mut controller).await;
    assert_eq!((fake.world(|world| world.tried), created(&fake)), (1, 1));
}

/// Sets a label in the template.
fn set_label(fake: &Fake, key: &str, value: &str) {
    fake.edit(SET, NAME, |set| {
        let template = &mut set["spec"]["template"]["machines_v1beta1_machine_openshift_io"];
        template["metadata"]["labels"][key] = json!(value);
    });
}

/// Deletes a machine and its node.
fn lose(fake: &Fake, name: &str) {
    fake.world(|world| {
        world.objects.remove(&(MACHINE, name.to_owned()));
        world.objects.remove(&(NODE, name.to_owned()));
    });
}

#[tokio::test(start_paused = true)]
async fn s6_a_refused_label_does_not_delay_a_missing_machine_and_is_reported() {
    let (fake, mut controller) = settled().await;
    fake.world(|world| world.refuses_labels = true);
    set_label(&fake, "team", "infra");
    lose(&fake, "c-master-1");
    reconcile_every_ten_seconds(&fake, &mut controller, 12).await;
    assert_eq!(created(&fake), 1);
    assert_condition(&fake, "Error=True/ContinuousErrors");
    assert!(fake.events("Failed") >= 1);
}

#[tokio::test(start_paused = true)]
async fn s6_an_invalid_label_of_a_stored_set_is_left_out_and_reported() {
    let (fake, mut controller) = settled().await;
    set_label(&fake, "team", "Infra Team");
    set_label(&fake, "level", "1");
    lose(&fake, "c-master-1");
    fake.settle(&mut controller).await;
    assert_eq!(created(&fake), 1);
    for machine in fake.all::<Machine>(MACHINE) {
        let labels = machine.content.unwrap().metadata.labels.clone();
        assert!(
            labels.contains_key("level") && !labels.contains_key("team"),
            "{labels:?}"
        );
    }
    assert_condition(&fake, "Degraded=True/InvalidTemplateMetadata");
}

// W1 to W4: policies of the cluster that change what Capstan writes.

fn remove(object: &mut Value, field: &str) {
    object["metadata"].as_object_mut().unwrap().remove(field);
}

/// Removes everything that shows that a machine belongs to a set, except its name.
fn take_out_of_the_set(machine: &mut Value) {
    for field in ["labels", "annotations", "ownerReferences"] {
        remove(machine, field);
    }
}

#[tokio::test(start_paused = true)]
async fn w1_a_machine_that_a_policy_takes_out_of_the_set_is_created_once_and_reported() {
    let (fake, mut controller) = settled().await;
    fake.world(|world| {
        world.policy = |kind, object| {
            if kind == MACHINE {
                take_out_of_the_set(object);
            }
        };
    });
    lose(&fake, "c-master-1");
    reconcile_every_ten_seconds(&fake, &mut controller, 40).await;
    assert_eq!(created(&fake), 1, "{:?}", fake.made());
    assert_condition(&fake, "Degraded=True/StrayedMachines");
}

/// A machine that replaces another, in a rollout or while the other machine is being deleted.
#[tokio::test(start_paused = true)]
async fn w1_a_replacement_that_a_policy_takes_out_of_the_set_is_created_once_and_reported() {
    for (is_rollout, old) in [(true, "c-master-0"), (false, "c-master-1")] {
        let (fake, mut controller) = settled().await;
        fake.world(|world| {
            world.policy = |kind, object| {
                if kind == MACHINE {
                    take_out_of_the_set(object);
                }
            };
        });
        if is_rollout {
            fake.want("n2-standard-8");
        } else {
            fake.edit(MACHINE, old, |machine| {
                machine["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            });
        }
        reconcile_every_ten_seconds(&fake, &mut controller, 40).await;
        assert_eq!(created(&fake), 1, "{:?}", fake.made());
        assert_condition(&fake, "Degraded=True/StrayedMachines");
        // The old machine disappears. Its index gets no other machine.
        lose(&fake, old);
        reconcile_every_ten_seconds(&fake, &mut controller, 40).await;
        assert_eq!(created(&fake), 1, "{:?}", fake.made());
    }
}

/// A replacement that was a member of the set, and is taken out of it by a later update.
#[tokio::test(start_paused = true)]
async fn w1_a_replacement_that_leaves_the_set_later_is_not_created_again() {
    let (fake, mut controller, first) = with_replacement().await;
    fake.edit(MACHINE, &first, take_out_of_the_set);
    reconcile_every_ten_seconds(&fake, &mut controller, 40).await;
    assert_eq!(created(&fake), 1);
    assert_condition(&fake, "Degraded=True/StrayedMachines");
}

#[tokio::test(start_paused = true)]
async fn w2_without_a_stored_finalizer_no_machine_is_created_or_adopted() {
    let (fake, mut controller) = settled().await;
    fake.world(|world| {
        world.policy = |kind, object| {
            if kind == SET {
                remove(object, "finalizers");
            }
        };
    });
    fake.edit(SET, NAME, |set| remove(set, "finalizers"));
    fake.edit(MACHINE, "c-master-0", |machine| remove(machine, "ownerReferences"));
    lose(&fake, "c-master-1");
    reconcile_every_ten_seconds(&fake, &mut controller, 40).await;
    assert_eq!(created(&fake), 0, "{:?}", fake.made());
    let adopted = fake
        .writes()
        .into_iter()
        .any(|(_, object, content)| object.starts_with(MACHINE) && content["metadata"]["ownerReferences"].is_array());
    assert!(!adopted, "{:?}", fake.writes());
    assert_condition(&fake, "Error=True/ContinuousErrors");
}

#[tokio::test(start_paused = true)]
async fn w3_a_label_that_a_policy_takes_out_is_reported_and_the_status_is_written() {
    let (fake, mut controller) = settled().await;
    fake.world(|world| {
        world.policy = |kind, object| {
            if kind == MACHINE {
                object["metadata"]["labels"].as_object_mut().unwrap().remove("team");
            }
        };
    });
    set_label(&fake, "team", "red");
    reconcile_every_ten_seconds(&fake, &mut controller, 12).await;
    assert_condition(&fake, "Error=True/ContinuousErrors");
    let set = fake.object(SET, NAME).unwrap();
    assert_eq!(set["status"]["observedGeneration"], set["metadata"]["generation"]);
    let writes = fake.writes().into_iter();
    let patches = writes.filter(|(_, _, content)| content["metadata"]["labels"]["team"] == "red");
    // The first patch of a machine also records the label, and the second one has the label alone.
    assert_eq!(patches.count(), 6);
}

/// An administrator corrects the policy, and replaces the set.
#[tokio::test(start_paused = true)]
async fn w3_a_write_that_was_not_stored_is_repeated_for_a_new_object_and_after_two_minutes() {
    let (fake, mut controller) = settled().await;
    let takes_finalizers: fn(&str, &mut Value) = |kind, object| {
        if kind == SET {
            remove(object, "finalizers");
        }
    };
    let is_held = |fake: &Fake| {
        let finalizers = &fake.object(SET, NAME).unwrap()["metadata"]["finalizers"];
        finalizers.as_array().is_some_and(|finalizers| !finalizers.is_empty())
    };
    for is_replaced in [false, true] {
        fake.world(|world| world.policy = takes_finalizers);
        fake.edit(SET, NAME, |set| remove(set, "finalizers"));
        fake.reconcile(&mut controller).await;
        assert!(!is_held(&fake));
        fake.world(|world| world.policy = |_, _| {});
        if is_replaced {
            fake.edit(SET, NAME, |set| set["metadata"]["uid"] = json!("another"));
        } else {
            fake.reconcile(&mut controller).await;
            assert!(!is_held(&fake), "the same write is not repeated at once");
            tokio::time::advance(Duration::from_secs(121)).await;
        }
        fake.reconcile(&mut controller).await;
        assert!(is_held(&fake), "{:?}", fake.conditions(SET, NAME));
    }
}

/// A GitOps tool reverts the annotations of the set, and a policy takes machines out of it.
#[tokio::test(start_paused = true)]
async fn w6_a_machine_is_created_once_also_if_the_set_loses_its_records() {
    let without_labels: fn(&mut Value) = |machine| {
        remove(machine, "labels");
        remove(machine, "ownerReferences");
    };
    for (take_out, restarts) in [(without_labels, true), (take_out_of_the_set as fn(&mut Value), false)] {
        let (fake, mut controller) = settled().await;
        fake.want("n2-standard-8");
        fake.settle(&mut controller).await;
        let first = fake.made();
        fake.edit(MACHINE, &first, take_out);
        for _ in 0..12 {
            fake.edit(SET, NAME, |set| remove(set, "annotations"));
            if restarts {
                controller = fake.controller().0;
            }
            reconcile_every_ten_seconds(&fake, &mut controller, 4).await;
        }
        assert_eq!(created(&fake), 1, "{:?}", fake.made());
        assert_condition(&fake, "Degraded=True/StrayedMachines");
    }
}

/// A user takes a machine out of the set for good.
#[tokio::test(start_paused = true)]
async fn w6_a_machine_that_a_user_releases_is_not_stray() {
    let (fake, mut controller, first) = with_replacement().await;
    fake.edit(MACHINE, &first, |machine| {
        remove(machine, "labels");
        remove(machine, "ownerReferences");
        machine["metadata"]["annotations"]["capstan.dev/released"] = json!("set");
    });
    reconcile_every_ten_seconds(&fake, &mut controller, 12).await;
    let set = fake.object(SET, NAME).unwrap();
    assert!(!set["status"].to_string().contains("StrayedMachines"), "{set:#}");
}

/// A policy takes the records of creations out of the set.
#[tokio::test(start_paused = true)]
async fn w7_a_record_that_is_not_stored_is_written_once_in_two_minutes() {
    let (fake, mut controller) = settled().await;
    fake.world(|world| {
        world.policy = |kind, object| {
            if kind == SET {
                remove(object, "annotations");
            }
        };
    });
    lose(&fake, "c-master-1");
    let is_record = |content: &Value| content["metadata"]["annotations"]["capstan.dev/pending-creations"].is_string();
    let records = |fake: &Fake| {
        fake.writes()
            .iter()
            .filter(|(_, _, content)| is_record(content))
            .count()
    };
    for expected in [1, 2] {
        reconcile_every_ten_seconds(&fake, &mut controller, 12).await;
        assert_eq!(records(&fake), expected);
        tokio::time::advance(Duration::from_secs(121)).await;
    }
    assert_eq!(created(&fake), 0, "a creation needs its record");
    assert_condition(&fake, "Error=True/ContinuousErrors");
}

/// A machine whose adoption is refused or not stored, while another index has no machine.
#[tokio::test(start_paused = true)]
async fn w4_an_adoption_that_is_not_stored_does_not_delay_the_repair_of_another_index() {
    let (fake, mut controller) = settled().await;
    fake.world(|world| {
        world.policy = |kind, object| {
            if kind == MACHINE && object["metadata"]["name"] == "c-master-0" {
                remove(object, "ownerReferences");
            }
        };
    });
    fake.edit(MACHINE, "c-master-0", |machine| remove(machine, "ownerReferences"));
    fake.want("n2-standard-8");
    reconcile_every_ten_seconds(&fake, &mut controller, 12).await;
    assert_eq!(created(&fake), 0, "a rollout waits for the adoption");
    lose(&fake, "c-master-1");
    reconcile_every_ten_seconds(&fake, &mut controller, 12).await;
    assert_eq!(created(&fake), 1);
    assert_condition(&fake, "Error=True/ContinuousErrors");
}
