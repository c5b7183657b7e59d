//! Golden reviews: an edit, and the answer to it. The snapshots contain the text that a user of
//! `kubectl` reads.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a panic fails the test")]
mod sets;

use capstan_core::admission::{Admission, Options, Phase, Route, Snapshot, Source, routes};
use serde_json::{Value, json};
use sets::{MACHINE, aws, labels, set_of};

const ZONES: [&str; 3] = ["us-east-1a", "us-east-1b", "us-east-1c"];
fn domain(zone: &str) -> Value {
    json!({"placement": {"availabilityZone": zone}})
}

fn set() -> Value {
    let mut set = set_of(&aws());
    set["metadata"]["generation"] = json!(1);
    set["spec"]["template"][MACHINE]["failureDomains"] = json!({"platform": "AWS", "aws": ZONES.map(domain)});
    set
}

fn machine(index: usize, zone: &str) -> Value {
    let mut spec = aws();
    spec["placement"]["availabilityZone"] = json!(zone);
    json!({
        "apiVersion": "machine.openshift.io/v1beta1",
        "kind": "Machine",
        "metadata": {"name": format!("prod-x7k2p-master-{index}"), "namespace": "openshift-machine-api", "labels": labels()},
        "spec": {"providerSpec": {"value": spec}},
    })
}

fn machines(count: usize) -> Snapshot {
    let machines: Vec<Value> = (0..count)
        .map(|index| machine(index, ZONES[index % ZONES.len()]))
        .collect();
    Snapshot {
        source: Source::Cluster,
        ..Snapshot::of_files(&machines).unwrap()
    }
}

/// Machines with ready nodes, which the preview of a rollout requires.
fn running(count: usize, change: impl Fn(usize, &mut Value, &mut Value)) -> Snapshot {
    let mut objects = Vec::new();
    for index in 0..count {
        let mut machine = machine(index, ZONES[index % ZONES.len()]);
        let name = machine["metadata"]["name"].clone();
        machine["metadata"]["uid"] = json!(format!("uid-{index}"));
        machine["metadata"]["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
        machine["status"] = json!({"phase": "Running", "nodeRef": {"name": name}});
        let mut node = json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {"node-role.kubernetes.io/control-plane": ""}},
            "status": {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:10:00Z"}]},
        });
        change(index, &mut machine, &mut node);
        objects.extend([machine, node]);
    }
    Snapshot {
        source: Source::Cluster,
        ..Snapshot::of_files(&objects).unwrap()
    }
}

/// A review of the webhook's resource in the form of an API server.
struct Review {
    phase: Phase,
    operation: &'static str,
    subresource: &'static str,
    object: Value,
    old: Value,
    options: Value,
}

impl Review {
    fn update(change: impl FnOnce(&mut Value)) -> Self {
        let old = set();
        let mut object = old.clone();
        change(&mut object);
        Self {
            phase: Phase::Validate,
            operation: "UPDATE",
            subresource: "",
            object,
            old,
            options: Value::Null,
        }
    }

    fn update_of(change_both: impl FnOnce(&mut Value), change: impl FnOnce(&mut Value)) -> Self {
        let mut old = set();
        change_both(&mut old);
        let mut object = old.clone();
        change(&mut object);
        Self {
            object,
            old,
            ..Self::update(|_| {})
        }
    }

    fn create(change: impl FnOnce(&mut Value)) -> Self {
        Self {
            operation: "CREATE",
            old: Value::Null,
            ..Self::update(change)
        }
    }

    fn delete(propagation: &str) -> Self {
        let options =
            json!({"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1", "propagationPolicy": propagation});
        Self {
            operation: "DELETE",
            object: Value::Null,
            options,
            ..Self::update(|_| {})
        }
    }

    fn before_the_schema(self) -> Self {
        Self {
            phase: Phase::Mutate,
            ..self
        }
    }

    fn body(&self) -> Vec<u8> {
        let name = [&self.object, &self.old]
            .iter()
            .find_map(|object| object["metadata"]["name"].as_str());
        let objects = [&self.object, &self.old].into_iter();
        let namespace = objects
            .filter_map(|object| object["metadata"]["namespace"].as_str())
            .next();
        let mut request = json!({
            "uid": "11111111-2222-3333-4444-555555555555",
            "kind": {"group": "machine.openshift.io", "version": "v1", "kind": "ControlPlaneMachineSet"},
            "resource": {"group": "machine.openshift.io", "version": "v1", "resource": "controlplanemachinesets"},
            "name": name,
            "namespace": namespace,
            "operation": self.operation,
            "userInfo": {"username": "kube:admin", "groups": ["system:authenticated"]},
            "object": self.object,
            "oldObject": self.old,
            "dryRun": false,
            "options": self.options,
        });
        if !self.subresource.is_empty() {
            request["subResource"] = json!(self.subresource);
        }
        serde_json::to_vec(&json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}))
            .unwrap()
    }
}

fn route(phase: Phase) -> &'static Route {
    routes().iter().find(|route| route.phase == phase).unwrap()
}

fn answer(review: &Review, snapshot: &Snapshot) -> Value {
    let admission = Admission::new(Options::default()).unwrap();
    let answer = admission.answer(route(review.phase), &review.body(), snapshot).unwrap();
    let value: Value = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!(value["response"]["uid"], "11111111-2222-3333-4444-555555555555");
    assert_eq!(value["response"]["allowed"], answer.record.allowed);
    value
}

/// The answer in readable form.
fn readable(review: &Review, snapshot: &Snapshot) -> String {
    let answer = answer(review, snapshot);
    let response = &answer["response"];
    let mut text = match response["allowed"].as_bool() {
        Some(true) => String::from("allowed\n"),
        _ => format!(
            "refused: {} {}\n{}\n",
            response["status"]["code"],
            response["status"]["reason"].as_str().unwrap(),
            response["status"]["message"].as_str().unwrap()
        ),
    };
    for cause in response["status"]["details"]["causes"].as_array().into_iter().flatten() {
        text.push_str(&format!(
            "cause: {} at {}\n",
            cause["reason"].as_str().unwrap(),
            cause["field"]
        ));
    }
    for warning in response["warnings"].as_array().into_iter().flatten() {
        text.push_str(&format!("warning: {}\n", warning.as_str().unwrap()));
    }
    text
}

fn template(set: &mut Value) -> &mut Value {
    &mut set["spec"]["template"][MACHINE]
}

fn value(set: &mut Value) -> &mut Value {
    &mut template(set)["spec"]["providerSpec"]["value"]
}

macro_rules! golden {
    ($($(#[$meta:meta])* $name:ident: $review:expr, $snapshot:expr;)*) => {$(
        $(#[$meta])*
        #[test]
        fn $name() {
            insta::assert_snapshot!(readable(&$review, &$snapshot));
        }
    )*};
}

golden! {
    an_update_that_changes_nothing_is_allowed: Review::update(|_| {}), machines(3);
    replicas_cannot_change: Review::update(|set| set["spec"]["replicas"] = json!(5)), machines(3);
    replicas_cannot_change_and_the_mutating_webhook_gives_the_advice:
        Review::update(|set| set["spec"]["replicas"] = json!(5)).before_the_schema(), machines(3);
    an_active_set_cannot_become_inactive: Review::update(|set| set["spec"]["state"] = json!("Inactive")), machines(3);
    the_selector_cannot_change:
        Review::update(|set| set["spec"]["selector"]["matchLabels"]["x"] = json!("y")), machines(3);
    a_name_prefix_must_be_a_subdomain:
        Review::update(|set| set["spec"]["machineNamePrefix"] = json!("Bad_Prefix")), machines(3);
    new_machines_can_be_authoritative_in_cluster_api_with_a_warning:
        Review::update(|set| template(set)["spec"]["authoritativeAPI"] = json!("ClusterAPI")), machines(3);
    an_edit_of_a_set_with_authority_in_cluster_api_does_not_repeat_the_warning:
        Review::update_of(
            |set| template(set)["spec"]["authoritativeAPI"] = json!("ClusterAPI"),
            |set| set["metadata"]["annotations"] = json!({"capstan.dev/paused-rollout": "true"}),
        ), machines(3);
    a_good_name_prefix_is_allowed:
        Review::update(|set| set["spec"]["machineNamePrefix"] = json!("control-plane")), machines(3);
    the_name_of_the_set_must_be_cluster: Review::create(|set| set["metadata"]["name"] = json!("other")), machines(3);
    b12_aws_domains_do_not_fit_a_gcp_provider_spec:
        Review::update(|set| *value(set) = json!({"kind": "GCPMachineProviderSpec", "targetPools": ["a"]})), machines(3);
    b11_a_control_plane_cannot_change_its_platform:
        Review::update(|set| {
            *value(set) = json!({"kind": "GCPMachineProviderSpec", "targetPools": ["a"]});
            template(set)["failureDomains"] = json!({"platform": "GCP", "gcp": [{"zone": "a"}, {"zone": "b"}, {"zone": "c"}]});
        }), machines(3);
    b11_three_zones_cannot_become_one_without_an_acknowledgement:
        Review::update(|set| template(set)["failureDomains"]["aws"] = json!([domain(ZONES[0])])), machines(3);
    three_zones_can_become_one_with_an_acknowledgement:
        Review::update(|set| {
            template(set)["failureDomains"]["aws"] = json!([domain(ZONES[0])]);
            set["metadata"]["annotations"] = json!({"capstan.dev/acknowledge-failure-domains": "us-east-1a"});
        }), machines(3);
    an_acknowledgement_of_another_list_does_not_count:
        Review::update(|set| {
            template(set)["failureDomains"]["aws"] = json!([domain(ZONES[0])]);
            set["metadata"]["annotations"] = json!({"capstan.dev/acknowledge-failure-domains": "us-east-1b"});
        }), machines(3);
    all_domains_cannot_be_removed:
        Review::update(|set| { template(set).as_object_mut().unwrap().remove("failureDomains"); }), machines(3);
    all_domains_can_be_removed_with_an_acknowledgement_if_the_template_names_one:
        Review::update_of(
            |set| value(set)["placement"]["availabilityZone"] = json!(ZONES[0]),
            |set| {
                template(set).as_object_mut().unwrap().remove("failureDomains");
                set["metadata"]["annotations"] = json!({"capstan.dev/acknowledge-failure-domains": "none"});
            },
        ), machines(3);
    all_domains_cannot_be_removed_without_an_acknowledgement:
        Review::update_of(
            |set| value(set)["placement"]["availabilityZone"] = json!(ZONES[0]),
            |set| { template(set).as_object_mut().unwrap().remove("failureDomains"); },
        ), machines(3);
    all_domains_cannot_be_removed_if_the_template_names_none:
        Review::update(|set| {
            template(set).as_object_mut().unwrap().remove("failureDomains");
            set["metadata"]["annotations"] = json!({"capstan.dev/acknowledge-failure-domains": "none"});
        }), machines(3);
    a_domain_can_be_added:
        Review::update(|set| template(set)["failureDomains"]["aws"].as_array_mut().unwrap().push(domain("us-east-1d"))),
        machines(3);
    a_domain_in_use_cannot_be_exchanged:
        Review::update(|set| template(set)["failureDomains"]["aws"][2] = domain("us-east-1d")), machines(3);
    a_domain_that_is_listed_twice_gives_a_warning:
        Review::update(|set| template(set)["failureDomains"]["aws"].as_array_mut().unwrap().push(domain(ZONES[0]))),
        machines(3);
    b17_each_domain_is_validated_and_not_only_the_first:
        Review::update(|set| template(set)["failureDomains"]["aws"][2] = json!({"subnet": {"type": "ID", "arn": "x"}})),
        machines(3);
    a_list_of_failure_domains_must_not_be_empty:
        Review::update(|set| template(set)["failureDomains"]["aws"] = json!([])), machines(3);
    a_set_of_three_cannot_be_activated_with_five_machines:
        Review::update_of(|set| set["spec"]["state"] = json!("Inactive"), |set| set["spec"]["state"] = json!("Active")),
        machines(5);
    an_active_set_of_three_cannot_be_created_with_five_machines: Review::create(|_| {}), machines(5);
    an_inactive_set_of_three_can_be_created_with_five_machines:
        Review::create(|set| set["spec"]["state"] = json!("Inactive")), machines(5);
    a_set_with_the_right_number_of_machines_can_be_activated:
        Review::update_of(|set| set["spec"]["state"] = json!("Inactive"), |set| set["spec"]["state"] = json!("Active")),
        machines(3);
    activation_warns_about_the_machines_that_it_replaces:
        Review::update_of(
            |set| { set["spec"]["state"] = json!("Inactive"); value(set)["instanceType"] = json!("m6i.4xlarge"); },
            |set| set["spec"]["state"] = json!("Active"),
        ), machines(3);
    activation_validates_unchanged_fields:
        Review::update_of(
            |set| { set["spec"]["state"] = json!("Inactive"); template(set)["failureDomains"]["aws"] = json!([]); },
            |set| set["spec"]["state"] = json!("Active"),
        ), machines(3);
    activation_waits_until_the_machines_are_known:
        Review::update_of(|set| set["spec"]["state"] = json!("Inactive"), |set| set["spec"]["state"] = json!("Active")),
        Snapshot { source: Source::Cluster, ..Snapshot::default() };
    an_unknown_object_is_a_warning_offline:
        Review::update_of(|set| set["spec"]["state"] = json!("Inactive"), |set| set["spec"]["state"] = json!("Active")),
        Snapshot::default();
    a_set_that_is_being_deleted_cannot_be_activated:
        Review::update_of(
            |set| { set["spec"]["state"] = json!("Inactive"); set["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"); },
            |set| set["spec"]["state"] = json!("Active"),
        ), machines(3);
    an_invalid_set_that_is_being_deleted_can_lose_its_finalizers:
        Review::update_of(
            |set| {
                set["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
                set["metadata"]["finalizers"] = json!(["controlplanemachineset.machine.openshift.io"]);
                set["metadata"]["name"] = json!("from-an-old-release");
                template(set)["failureDomains"]["aws"] = json!([]);
            },
            |set| set["metadata"]["finalizers"] = json!([]),
        ), machines(3);
    a_spec_change_of_a_set_that_is_being_deleted_is_validated:
        Review::update_of(
            |set| set["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"),
            |set| { set["metadata"]["finalizers"] = json!([]); set["spec"]["replicas"] = json!(5); },
        ), machines(3);
    an_unchanged_field_is_not_validated_again:
        Review::update_of(
            |set| template(set)["failureDomains"]["aws"] = json!([]),
            |set| set["spec"]["strategy"]["type"] = json!("OnDelete"),
        ), machines(3);
    the_number_of_replaced_machines_is_not_guessed_without_machines:
        Review::update(|set| value(set)["instanceType"] = json!("m6i.2xlarge")), Snapshot::default();
    a_changed_instance_type_rolls_the_machines: Review::update(|set| value(set)["instanceType"] = json!("m6i.2xlarge")), machines(3);
    on_delete_replaces_no_machine_without_a_user:
        Review::update_of(
            |set| set["spec"]["strategy"]["type"] = json!("OnDelete"),
            |set| value(set)["instanceType"] = json!("m6i.2xlarge"),
        ), machines(3);
    a_rollout_is_previewed_machine_by_machine:
        Review::update(|set| value(set)["instanceType"] = json!("m6i.2xlarge")), running(3, |_, _, _| {});
    an_unready_machine_is_replaced_first:
        Review::update(|set| value(set)["instanceType"] = json!("m6i.2xlarge")),
        running(3, |index, _, node| if index == 1 { node["status"]["conditions"][0]["status"] = json!("False"); });
    the_preview_reports_a_machine_of_another_owner:
        Review::update(|set| value(set)["instanceType"] = json!("m6i.2xlarge")),
        running(3, |index, machine, _| if index == 2 {
            machine["metadata"]["ownerReferences"] = json!([{
                "apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineSet", "name": "workers", "uid": "x", "controller": true,
            }]);
        });
    the_preview_reports_a_paused_rollout:
        Review::update(|set| {
            value(set)["instanceType"] = json!("m6i.2xlarge");
            set["metadata"]["annotations"] = json!({"capstan.dev/paused-rollout": "true"});
        }), running(3, |_, _, _| {});
    a_change_from_on_delete_to_rolling_update_starts_a_rollout:
        Review::update_of(
            |set| { set["spec"]["strategy"]["type"] = json!("OnDelete"); value(set)["instanceType"] = json!("m6i.2xlarge"); },
            |set| set["spec"]["strategy"]["type"] = json!("RollingUpdate"),
        ), running(3, |_, _, _| {});
    the_removal_of_a_domain_with_an_acknowledgement_moves_its_machine:
        Review::update(|set| {
            template(set)["failureDomains"]["aws"] = json!([domain(ZONES[0]), domain(ZONES[1])]);
            set["metadata"]["annotations"] = json!({"capstan.dev/acknowledge-failure-domains": "us-east-1a,us-east-1b"});
        }), running(3, |_, _, _| {});
    an_annotation_that_cannot_be_read_is_refused:
        Review::update(|set| set["metadata"]["annotations"] = json!({"capstan.dev/rollout-limit": "one"})), running(3, |_, _, _| {});
    the_end_of_a_pause_previews_the_rollout:
        Review::update_of(
            |set| {
                value(set)["instanceType"] = json!("m6i.2xlarge");
                set["metadata"]["annotations"] = json!({"capstan.dev/paused-rollout": "true"});
            },
            |set| set["metadata"]["annotations"] = json!({}),
        ), running(3, |_, _, _| {});
    an_unrelated_annotation_gives_no_warning:
        Review::update(|set| set["metadata"]["annotations"] = json!({"example.com/note": "x"})), running(3, |_, _, _| {});
    a_changed_image_rolls_nothing: Review::update(|set| value(set)["ami"]["id"] = json!("ami-0c2")), machines(3);
    a_changed_image_rolls_the_machines_with_the_annotation:
        Review::update(|set| {
            value(set)["ami"]["id"] = json!("ami-0c2");
            set["metadata"]["annotations"] = json!({"capstan.dev/roll-on-image-change": "true"});
        }), machines(3);
    an_unknown_field_of_the_provider_spec_gives_a_warning:
        Review::update(|set| value(set)["instanceTypes"] = json!("m6i.2xlarge")), machines(3);
    foreground_deletion_is_refused: Review::delete("Foreground"), machines(3);
    a_background_deletion_warns_about_unmanaged_machines: Review::delete("Background"), machines(3);
    an_orphaning_deletion_warns_about_unmanaged_machines: Review::delete("Orphan"), machines(3);
    the_finalizer_of_foreground_deletion_cannot_be_added:
        Review::update(|set| set["metadata"]["finalizers"] = json!(["foregroundDeletion"])), machines(3);
    a_set_in_another_namespace_is_refused:
        Review { object: { let mut set = set(); set["metadata"]["namespace"] = json!("default"); set }, ..Review::create(|_| {}) },
        machines(3);
    labels_that_the_selector_does_not_match_are_refused:
        Review::create(|set| set["spec"]["selector"]["matchLabels"]["x"] = json!("y")), machines(3);
    recreate_requires_its_feature_gate: Review::update(|set| set["spec"]["strategy"]["type"] = json!("Recreate")), machines(3);
    several_violations_are_reported_together:
        Review::update(|set| {
            set["spec"]["replicas"] = json!(5);
            set["spec"]["machineNamePrefix"] = json!("-x");
            template(set)["failureDomains"]["platform"] = json!("GCP");
        }), machines(3);
    the_scale_subresource_cannot_change_replicas:
        Review {
            subresource: "scale",
            object: json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": {"name": "cluster"}, "spec": {"replicas": 5}}),
            old: json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": {"name": "cluster"}, "spec": {"replicas": 3}}),
            ..Review::update(|_| {})
        }, machines(3);
}

#[test]
fn the_bytes_of_a_refusal() {
    let admission = Admission::new(Options::default()).unwrap();
    let review = Review::update(|set| set["spec"]["replicas"] = json!(5));
    let answer = admission
        .answer(route(Phase::Validate), &review.body(), &machines(3))
        .unwrap();
    insta::assert_snapshot!(String::from_utf8(answer.body).unwrap());
}

#[test]
fn the_names_of_the_standard_secrets_are_defaults_and_added_once() {
    let mut review = Review::create(|set| {
        value(set).as_object_mut().unwrap().remove("userDataSecret");
        value(set).as_object_mut().unwrap().remove("credentialsSecret");
    })
    .before_the_schema();
    let admission = Admission::new(Options::default()).unwrap();
    let first = answer(&review, &machines(3));
    assert_eq!(first["response"]["patchType"], "JSONPatch");
    let outcome = |object: &Value| {
        let user = capstan_core::model::User::default();
        let edit = capstan_core::model::Edit {
            operation: capstan_core::model::Operation::Create,
            subresource: "",
            namespace: "openshift-machine-api",
            name: "cluster",
            object: Some(object),
            old: None,
            propagation: None,
            user: &user,
            dry_run: false,
        };
        admission
            .judge(
                Phase::Mutate,
                "machine.openshift.io",
                "ControlPlaneMachineSet",
                &edit,
                &machines(3),
            )
            .unwrap()
    };
    let patch = outcome(&review.object).patch.unwrap();
    insta::assert_json_snapshot!(patch);
    json_patch::patch(&mut review.object, &patch).unwrap();
    assert_eq!(outcome(&review.object).patch, None);
}

#[test]
fn a_review_that_cannot_be_decoded_is_refused_with_its_uid() {
    let deep = format!("{}1{}", "[".repeat(500), "]".repeat(500));
    let body = String::from_utf8(Review::update(|_| {}).body()).unwrap();
    let body = body.replace("\"replicas\":3", &format!("\"replicas\":{deep}"));
    let admission = Admission::new(Options::default()).unwrap();
    let answer = admission
        .answer(route(Phase::Validate), body.as_bytes(), &machines(3))
        .unwrap();
    assert_eq!((answer.record.allowed, answer.record.code), (false, 400));
    assert_eq!(answer.record.uid, "11111111-2222-3333-4444-555555555555");
}

#[test]
fn a_review_of_an_unknown_resource_is_refused() {
    let body = String::from_utf8(Review::update(|_| {}).body())
        .unwrap()
        .replace("controlplanemachinesets", "pods");
    let admission = Admission::new(Options::default()).unwrap();
    let answer = admission
        .answer(route(Phase::Validate), body.as_bytes(), &machines(3))
        .unwrap();
    assert_eq!((answer.record.allowed, answer.record.code), (false, 400));
}

#[test]
fn no_warning_exceeds_the_limit_of_the_api_server() {
    let review = Review::update(|set| {
        for field in 0..60 {
            value(set)[format!("unknownFieldNumber{field}")] = json!("x".repeat(300));
        }
    });
    let answer = answer(&review, &machines(3));
    let warnings = answer["response"]["warnings"].as_array().unwrap();
    assert!(!warnings.is_empty());
    assert!(warnings.iter().all(|warning| warning.as_str().unwrap().len() <= 256));
}

#[test]
fn every_rule_of_an_answer_is_in_the_table_and_every_id_is_unique() {
    let admission = Admission::new(Options::default()).unwrap();
    let mut ids: Vec<String> = admission.table().into_iter().map(|rule| rule.id).collect();
    let all = ids.len();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), all);
    for review in [
        Review::update(|set| set["spec"]["replicas"] = json!(5)),
        Review::update(|set| template(set)["failureDomains"]["aws"] = json!([domain(ZONES[0])])),
        Review::update(|set| value(set)["x"] = json!(1)),
        Review::delete("Background"),
        Review::delete("Foreground"),
    ] {
        let answer = admission
            .answer(route(Phase::Validate), &review.body(), &machines(3))
            .unwrap();
        let ids_of_answer = answer.record.denied_by.iter().chain(&answer.record.warned_by);
        for id in ids_of_answer {
            assert!(ids.contains(id), "{id}");
        }
    }
}

/// Three machines named after their addresses.
fn machines_of_one_index() -> Snapshot {
    running(3, |index, machine, _| {
        machine["metadata"]["name"] = json!(format!("prod-x7k2p-10-0-{}-10", 16 * index));
    })
}

#[test]
fn s4_activation_warns_of_machines_that_have_the_same_index() {
    let activate = Review::update_of(
        |set| set["spec"]["state"] = json!("Inactive"),
        |set| set["spec"]["state"] = json!("Active"),
    );
    let text = readable(&activate, &machines_of_one_index());
    assert!(text.starts_with("allowed"), "{text}");
    for expected in [
        "index 10 is the number at the end of the names of several machines: prod-x7k2p-10-0-0-10, \
         prod-x7k2p-10-0-16-10, prod-x7k2p-10-0-32-10",
        "machines are created for the indexes that have none (0, 1); when they are ready, all but one of the machines \
         that share an index are deleted",
    ] {
        assert!(text.contains(expected), "{text}");
    }
    let edit = Review::update(|set| set["metadata"]["annotations"] = json!({"capstan.dev/rollout-limit": "1"}));
    assert!(!readable(&edit, &machines_of_one_index()).contains("several machines"));
    assert!(!readable(&activate, &machines(3)).contains("several machines"));
}

#[test]
fn s3_activation_warns_of_a_selector_that_matches_other_machines() {
    let widen = |set: &mut Value| {
        set["spec"]["selector"] = json!({"matchLabels": {"machine.openshift.io/cluster-api-cluster": "prod-x7k2p"}});
    };
    let activate = Review::update_of(
        |set| {
            widen(set);
            set["spec"]["state"] = json!("Inactive");
        },
        |set| set["spec"]["state"] = json!("Active"),
    );
    let worker = running(4, |index, machine, _| {
        if index == 3 {
            machine["metadata"]["name"] = json!("prod-worker-a-1");
            for key in ["role", "type"] {
                machine["metadata"]["labels"][format!("machine.openshift.io/cluster-api-machine-{key}")] =
                    json!("worker");
            }
        }
    });
    let text = readable(&activate, &worker);
    assert!(text.starts_with("allowed"), "{text}");
    let expected = "spec.selector also matches 1 other machine(s), such as prod-worker-a-1; only machines with the role \
                    label and the type label \"master\" belong to the set";
    assert!(text.contains(expected), "{text}");
}

/// A label or an annotation that a machine cannot have is refused, unless the set is stored with it
/// and stays as it is.
#[test]
fn s6_metadata_that_the_api_server_refuses_is_refused() {
    for (field, key, value) in [
        ("labels", "team", "Infra Team"),
        ("labels", "a/b/c", "d"),
        ("annotations", "a b", "any value"),
    ] {
        let invalid = |set: &mut Value| template(set)["metadata"][field][key] = json!(value);
        for review in [Review::update(invalid), Review::create(invalid)] {
            let answer = readable(&review, &machines(3));
            assert!(answer.starts_with("refused: 422 Invalid"), "{answer}");
            assert!(
                answer.contains("[cpms-template-metadata]") && answer.contains(value),
                "{answer}"
            );
        }
        let pause = |set: &mut Value| set["metadata"]["annotations"]["capstan.dev/paused-rollout"] = json!("");
        let stored = readable(&Review::update_of(invalid, pause), &machines(3));
        assert!(!stored.contains("refused"), "{stored}");
    }
    let valid = Review::update(|set| {
        template(set)["metadata"]["labels"]["example.com/team"] = json!("Infra_Team.1");
        template(set)["metadata"]["annotations"]["Example.com/team"] = json!("Infra Team");
    });
    let answer = readable(&valid, &machines(3));
    assert!(!answer.contains("refused"), "{answer}");
}
