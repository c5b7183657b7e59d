//! Targets for the review endpoint: it answers any review with the UID of the request, and returns
//! an error for other bytes.

use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use capstan_core::admission::{Admission, Options, Phase, Request, Snapshot, Source, routes};
use capstan_core::cpms::defaults::provider_spec_defaults;
use capstan_core::cpms::domains::Platform;
use capstan_core::model::{Edit, Operation, Stored, User};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use serde_json::Value;

use super::inputs::{json, mutated, one_graft, spoilt};
use super::runner::fuzz;
use super::seeds::{MACHINE, cluster, nodes, review, reviews, sets};

const GROUP: &str = "machine.openshift.io";
const KIND: &str = "ControlPlaneMachineSet";

static ADMISSION: LazyLock<Admission> = LazyLock::new(|| {
    let gates = [("CPMSRecreate".to_owned(), true)];
    Admission::new(Options {
        feature_gates: gates.into_iter().collect(),
        ..Options::default()
    })
    .unwrap()
});

/// An unknown cluster, a cluster with known machines, and a cluster with known machines and nodes.
static SNAPSHOTS: LazyLock<[Snapshot; 3]> = LazyLock::new(|| {
    let of = |objects: &[Value]| Snapshot {
        source: Source::Cluster,
        ..Snapshot::of_files(objects).unwrap()
    };
    let everything: Vec<Value> = cluster().into_iter().chain(nodes()).collect();
    [of(&[]), of(&cluster()), of(&everything)]
});

/// Checks the properties of every answer.
fn answered(body: &[u8], snapshot: &Snapshot) -> Result<(), TestCaseError> {
    for route in routes() {
        let Ok(answer) = ADMISSION.answer(route, body, snapshot) else {
            continue;
        };
        let text: Value = serde_json::from_slice(&answer.body).expect("an answer must be JSON");
        prop_assert_eq!(&text["apiVersion"], "admission.k8s.io/v1");
        prop_assert_eq!(&text["kind"], "AdmissionReview");
        let response = &text["response"];
        prop_assert_eq!(&response["uid"], answer.record.uid.as_str());
        if let Ok(question) = serde_json::from_slice::<Value>(body) {
            prop_assert_eq!(&response["uid"], &question["request"]["uid"]);
        }
        prop_assert_eq!(&response["allowed"], answer.record.allowed);
        if answer.record.allowed {
            prop_assert_eq!(&response["status"], &Value::Null);
        } else {
            let code = response["status"]["code"].as_u64().unwrap_or_default();
            prop_assert!([400, 403, 422].contains(&code), "{text}");
            prop_assert!(
                !response["status"]["message"].as_str().unwrap_or_default().is_empty(),
                "{text}"
            );
            prop_assert_eq!(&response["patch"], &Value::Null);
        }
        if let Some(patch) = response["patch"].as_str() {
            let patch = BASE64.decode(patch).expect("a patch must be base64");
            serde_json::from_slice::<json_patch::Patch>(&patch).expect("a patch must be a JSON patch");
        }
        let warnings = response["warnings"].as_array().map_or(0, Vec::len);
        prop_assert!(warnings <= 64, "{warnings} warnings");
    }
    Ok(())
}

#[test]
fn bytes_that_are_almost_a_review_give_an_answer_or_an_error() {
    let seeds = reviews()
        .iter()
        .map(|review| serde_json::to_vec(review).unwrap())
        .collect();
    fuzz("review-bytes", 4000, &spoilt(seeds), |body| {
        answered(&body, &SNAPSHOTS[1])
    });
}

#[test]
fn reviews_of_any_shape_are_answered_in_any_cluster() {
    fuzz(
        "review-shapes",
        2000,
        &(mutated(reviews()), 0_usize..2),
        |(review, snapshot)| answered(&serde_json::to_vec(&review).unwrap(), &SNAPSHOTS[snapshot]),
    );
}

#[test]
fn a_review_of_any_object_is_answered_with_its_uid() {
    let operation = prop::sample::select(vec!["CREATE", "UPDATE", "DELETE", "CONNECT"]);
    fuzz(
        "review-noise",
        1000,
        &(json(), json(), operation),
        |(object, old, operation)| {
            let body = serde_json::to_vec(&review(operation, &object, &old)).unwrap();
            prop_assert!(
                routes()
                    .iter()
                    .all(|route| ADMISSION.answer(route, &body, &SNAPSHOTS[1]).is_ok())
            );
            answered(&body, &SNAPSHOTS[1])
        },
    );
}

#[test]
fn the_rollout_of_any_edit_is_previewed() {
    let edits = (0..sets().len(), prop::collection::vec(one_graft(), 0..3)).prop_map(|(at, grafts)| {
        let old = sets().swap_remove(at);
        let mut new = old.clone();
        for graft in &grafts {
            // The change is in the provider spec, so that it starts a rollout.
            graft.apply(&mut new["spec"]["template"][MACHINE]["spec"]["providerSpec"]["value"]);
        }
        review("UPDATE", &new, &old)
    });
    fuzz("rollout-foretold", 150, &edits, |review| {
        answered(&serde_json::to_vec(&review).unwrap(), &SNAPSHOTS[2])
    });
}

#[test]
fn machines_of_any_shape_are_looked_up_without_harm() {
    let edit = serde_json::to_vec(&reviews()[7]).unwrap();
    fuzz(
        "surroundings",
        1000,
        &prop::collection::vec(mutated(cluster()), 1..5),
        |objects| match Snapshot::of_files(&objects) {
            Ok(snapshot) => answered(&edit, &snapshot),
            Err(_unreadable) => Ok(()),
        },
    );
}

#[test]
fn an_object_that_cannot_be_decoded_is_denied_with_its_uid() {
    let pieces = prop_oneof![
        "[\\[{]{100,300}",
        "\\{\"a\":[^,}]{0,20}\\}",
        "[0-9e+.-]{1,40}",
        "\"[^\"]{0,20}\""
    ];
    fuzz("unreadable-objects", 1000, &pieces, |piece| {
        let seed = serde_json::to_string(&review("CREATE", &Value::from("HERE"), &Value::Null)).unwrap();
        let body = seed.replace("\"HERE\"", &piece);
        let read = Request::read(body.as_bytes(), false).map(|request| request.uid);
        if let Ok(uid) = read {
            prop_assert_eq!(uid, "11111111-2222-3333-4444-555555555555");
            answered(body.as_bytes(), &SNAPSHOTS[1])?;
        }
        Ok(())
    });
}

fn edit<'a>(object: &'a Value, old: Option<&'a Value>, user: &'a User) -> Edit<'a> {
    Edit {
        operation: if old.is_some() {
            Operation::Update
        } else {
            Operation::Create
        },
        subresource: "",
        namespace: "openshift-machine-api",
        name: "cluster",
        object: Some(object),
        old: old.map(|old| old as &dyn Stored),
        propagation: None,
        user,
        dry_run: false,
    }
}

#[test]
fn the_patch_of_the_mutating_webhook_adds_the_defaults_once() {
    fuzz("mutator", 1500, &mutated(sets()), |set| {
        let user = User::default();
        let mutate = |object: &Value| {
            let edit = edit(object, None, &user);
            ADMISSION
                .judge(Phase::Mutate, GROUP, KIND, &edit, &SNAPSHOTS[1])
                .unwrap()
                .patch
        };
        let Some(patch) = mutate(&set) else { return Ok(()) };
        let mut patched = set.clone();
        json_patch::patch(&mut patched, &patch).expect("the patch must apply to its object");
        prop_assert_eq!(mutate(&patched), None);
        // The expected result: the defaults of the platform, and no other change.
        let mut meant = set;
        let value = &mut meant["spec"]["template"][MACHINE]["spec"]["providerSpec"]["value"];
        provider_spec_defaults(Platform::of(value), value);
        prop_assert_eq!(patched, meant);
        Ok(())
    });
}

#[test]
fn shortcuts_for_unchanged_parts_of_a_set_change_no_verdict() {
    let edits = (
        prop::sample::select(sets()),
        prop::collection::vec(one_graft(), 0..2),
        prop::collection::vec(one_graft(), 1..3),
    );
    fuzz("shortcuts", 1500, &edits, |(mut old, before, after)| {
        let value = |set: &mut Value, grafts: &[super::inputs::Graft]| {
            let machine = &mut set["spec"]["template"][MACHINE]["spec"]["providerSpec"]["value"];
            grafts.iter().for_each(|graft| graft.apply(machine));
        };
        before.iter().for_each(|graft| graft.apply(&mut old));
        let place = format!("/spec/template/{MACHINE}/spec/providerSpec/value");
        if old.pointer(&place).is_none() {
            return Ok(());
        }
        let mut new = old.clone();
        value(&mut new, &after);
        // A set that also differs in an annotation is parsed before and after the edit. No rule
        // reads this annotation.
        let mut marked = old.clone();
        let Some(metadata) = marked.get_mut("metadata").and_then(Value::as_object_mut) else {
            return Ok(());
        };
        metadata.insert("selfLink".to_owned(), Value::from("elsewhere"));
        let user = User::default();
        let verdict = |old: &Value, snapshot: &Snapshot| {
            let edit = edit(&new, Some(old), &user);
            ADMISSION
                .judge(Phase::Validate, GROUP, KIND, &edit, snapshot)
                .unwrap()
                .verdict
        };
        let whole = verdict(&marked, &SNAPSHOTS[1]);
        prop_assert_eq!(&verdict(&old, &SNAPSHOTS[1]), &whole);
        // A set in the caches is parsed once, and its result is used for the unchanged parts of an
        // edit.
        let cached: Vec<Value> = cluster().into_iter().chain([old.clone()]).collect();
        if let Ok(snapshot) = Snapshot::of_files(&cached) {
            let snapshot = Snapshot {
                source: Source::Cluster,
                ..snapshot
            };
            prop_assert_eq!(&verdict(&old, &snapshot), &whole);
            prop_assert_eq!(&verdict(&marked, &snapshot), &whole);
            // An old object that is equal to the stored object is not decoded again.
            let body = serde_json::to_vec(&review("UPDATE", &new, &old)).unwrap();
            for route in routes() {
                let answer = |snapshot| ADMISSION.answer(route, &body, snapshot).unwrap();
                let (without_set, with_set) = (answer(&SNAPSHOTS[1]), answer(&snapshot));
                prop_assert_eq!(without_set.body, with_set.body);
                prop_assert_eq!(without_set.record, with_set.record);
            }
        }
        Ok(())
    });
}
