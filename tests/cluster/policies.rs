//! The policies without a webhook: they refuse the edits that CEL can express, and their messages
//! contain the advice. The CRD of these tests has no rules, so that only the policies refuse.

use capstan_core::admission::{Feature, rule_files};
use capstan_core::cel::rules::{Enforcer, Rule};
use capstan_core::schema::crd;
use capstan_sandbox::control_plane::{Output, free_port, wait_until};
use capstan_sandbox::installation::{Cluster, manifests_of};
use serde_json::{Value, json};

use super::fixtures;
use super::refusals;
use super::world::{SET, SOON, Taken, World, capstan, without_rules};

/// The message of a rule.
fn message(id: &str) -> String {
    let files = rule_files().unwrap();
    let rule = files
        .iter()
        .flat_map(|file| &file.rules)
        .find(|rule| rule.id == id)
        .unwrap();
    format!("{}; {} [{id}]", rule.message.trim_end_matches('.'), rule.advice)
}

fn expect(output: &Output, id: &str) {
    assert!(!output.success(), "{id}: {output}");
    let policy = "ValidatingAdmissionPolicy 'capstan-controlplanemachinesets' with binding 'capstan-controlplanemachinesets' \
        denied request";
    assert!(output.stderr.contains(policy), "{id}: {output}");
    assert!(output.stderr.contains(&message(id)), "{id}: {output}");
}

async fn create(cluster: &Taken, set: &Value) -> Output {
    cluster
        .kubectl(&["create", "-f", "-"])
        .stdin(set.to_string())
        .run()
        .await
        .unwrap()
}

#[tokio::test]
async fn the_policies_refuse_every_edit_of_the_list_that_cel_can_state() {
    let refusals = refusals::all().into_iter().filter(|refusal| refusal.in_cel);
    let mut tried = 0;
    for refusal in refusals {
        let id = refusal.says.last().unwrap();
        let id = &id[id.rfind('[').unwrap() + 1..id.len() - 1];
        let cluster = refusal.prepare(World::policies_only().await).await;
        let patch_type = format!("--type={}", refusal.patch.0);
        let patch = ["patch", SET, "cluster", &patch_type, "-p", &refusal.patch.1];
        expect(&cluster.run(&patch).await, id);
        let alice = cluster.kubectl(&patch).as_user("alice", &[]).run().await.unwrap();
        expect(&alice, id);
        let edited = cluster.edit(refusal.sed).await;
        assert_eq!(edited.status, 1, "{id}: {edited}");
        assert!(edited.opened[1].contains(&format!("[{id}]")), "{}", edited.opened[1]);
        if let Some(replicas) = refusal.scale {
            let replicas = format!("--replicas={replicas}");
            expect(&cluster.run(&["scale", SET, "cluster", &replicas]).await, id);
        }
        tried += 1;
    }
    assert_eq!(tried, 4);
}

#[tokio::test]
async fn the_policies_refuse_a_second_set_and_a_foreground_deletion() {
    let cluster = World::policies_only().await.with_set(3, "Active").await;
    let mut other = fixtures::set();
    other["metadata"]["name"] = json!("other");
    expect(&create(&cluster, &other).await, "cpms-name");
    for user in ["admin", "alice"] {
        let delete = cluster.kubectl(&["delete", SET, "cluster", "--cascade=foreground"]);
        let delete = if user == "alice" {
            delete.as_user(user, &[])
        } else {
            delete
        };
        expect(&delete.run().await.unwrap(), "cpms-foreground-deletion");
    }
    let finalizer = cluster
        .patch(r#"{"metadata": {"finalizers": ["foregroundDeletion"]}}"#)
        .await;
    expect(&finalizer, "cpms-foreground-finalizer");
    let output = cluster.run(&["delete", SET, "cluster"]).await;
    assert!(output.success(), "{output}");
}

#[tokio::test]
async fn without_the_server_no_set_changes_and_every_set_can_be_deleted() {
    let world = World::with_stoppable_server().await;
    let cluster = world.with_set(3, "Active").await;
    let finalizers = r#"{"metadata": {"finalizers": ["example.com/a", "example.com/b"]}}"#;
    cluster.patch(finalizers).await.checked().unwrap();
    world.stop_server().await;

    let edit = cluster
        .patch(r#"{"spec": {"machineNamePrefix": "control-plane"}}"#)
        .await;
    let down = "failed calling webhook \"mutate.controlplanemachineset.capstan.dev\"";
    assert!(!edit.success() && edit.stderr.contains(down), "{edit}");
    // Policies run before the validating webhook. The mutating webhook does not receive deletions.
    let foreground = ["delete", SET, "cluster", "--cascade=foreground"];
    expect(&cluster.run(&foreground).await, "cpms-foreground-deletion");
    let delete = cluster.run(&["delete", SET, "cluster", "--wait=false"]).await;
    let down = "failed calling webhook \"validate.controlplanemachineset.capstan.dev\"";
    assert!(!delete.success() && delete.stderr.contains(down), "{delete}");

    // The policies still apply after an administrator deletes the webhook configurations in an
    // emergency.
    let configurations = [
        "delete",
        "mutatingwebhookconfigurations/capstan",
        "validatingwebhookconfigurations/capstan",
    ];
    cluster.run(&configurations).await.checked().unwrap();
    expect(&cluster.run(&foreground).await, "cpms-foreground-deletion");
    wait_until("the deletion of the configurations", SOON, async || {
        cluster
            .run(&["delete", SET, "cluster", "--wait=false"])
            .await
            .checked()
            .map(Some)
    })
    .await
    .unwrap();

    // With the configurations and without a server, an object that is being deleted can lose its
    // finalizers, also one at a time.
    let webhooks = capstan::manifests::join(&capstan::manifests::webhook_files(Feature::Admission));
    let authority = std::fs::read_to_string(cluster.plane().folder().join("ca.crt")).unwrap();
    let unused_port = free_port().unwrap();
    cluster
        .plane()
        .register_webhooks(&webhooks, unused_port, &authority)
        .await
        .unwrap();
    wait_until("the new configurations to apply", SOON, async || {
        let output = cluster
            .patch(r#"{"metadata": {"labels": {"a": "b"}}, "spec": {"machineNamePrefix": "a"}}"#)
            .await;
        Ok(output.stderr.contains("failed calling webhook").then_some(()))
    })
    .await
    .unwrap();
    for finalizers in [r#"["example.com/b"]"#, "null"] {
        let patch = format!(r#"{{"metadata": {{"finalizers": {finalizers}}}}}"#);
        let output = cluster.patch(&patch).await;
        assert!(output.success(), "{output}");
    }
    let left = cluster.run(&["get", SET, "-o", "name"]).await.checked().unwrap();
    assert_eq!(left.stdout, "");
}

/// Tests each rule of the policies with its own cases in the real API server. A broken expression
/// would refuse all objects or none.
#[tokio::test]
async fn every_rule_of_the_policy_refuses_its_cases_in_the_api_server() {
    let cluster = World::policies_only().await.with_machines(3).await;
    add_control_planes(&cluster).await;
    let files = rule_files().unwrap();
    let about_creation = |rule: &&Rule| rule.operations.is_empty() && !rule.expression.contains("oldSelf");
    let enforced = |rule: &&Rule| rule.enforced_by.contains(&Enforcer::Policy);
    let mut silent = Vec::new();
    for file in &files {
        let object = match file.kind.as_str() {
            "ControlPlane" => super::control_plane::object(Some(3)),
            _ => fixtures::set(),
        };
        for rule in file.rules.iter().filter(about_creation).filter(enforced) {
            if !is_named_by_its_cases(&cluster, rule, &object).await {
                silent.push(rule.id.as_str());
            }
        }
    }
    assert_eq!(silent, [""; 0]);
}

/// Installs the CRD of ControlPlanes without rules, and their policy.
async fn add_control_planes(cluster: &Taken) {
    let cluster = Cluster::of(cluster.plane()).unwrap();
    for mut definition in crd::control_plane_crds(&rule_files().unwrap()).unwrap() {
        without_rules(&mut definition);
        cluster.apply(&definition.to_string()).await.unwrap();
    }
    let policies = manifests_of(capstan(), "policies", "control-plane").await.unwrap();
    cluster.apply(&policies).await.unwrap();
    let mut wrong = super::control_plane::object(Some(3));
    wrong["metadata"]["name"] = json!("other");
    wait_until("the policy of ControlPlanes to be in force", SOON, async || {
        let create = ["create", "--dry-run=server", "-f", "-"];
        let output = cluster.run(&create, &wrong.to_string()).await?;
        Ok(output.stderr.contains("ValidatingAdmissionPolicy").then_some(()))
    })
    .await
    .unwrap();
}

/// Creates the object with the value of each case of a rule. Returns whether a refusal names the
/// rule.
async fn is_named_by_its_cases(cluster: &Taken, rule: &Rule, object: &Value) -> bool {
    let mut is_named = false;
    for (cases, denied) in [(&rule.cases.deny, true), (&rule.cases.allow, false)] {
        for case in cases {
            // A policy reports the first of its rules that does not hold. Each case is
            // therefore also tested together with a valid value.
            for beside in [false, true] {
                let mut object = object.clone();
                put(&mut object, &rule.path, &case.this, beside);
                let dry = ["create", "--dry-run=server", "--validate=ignore", "-f", "-"];
                let output = cluster.kubectl(&dry).stdin(object.to_string()).run().await.unwrap();
                let by_this = output.stderr.contains(&format!("[{}]", rule.id));
                let context = format!("{} on {:?}: {output}", rule.id, case.this);
                assert!(denied || beside || !by_this, "{context}");
                assert!(beside || !denied || !output.success(), "{context}");
                is_named |= by_this;
            }
        }
    }
    is_named
}

/// Writes a value at the path of a rule, in place of the existing value or merged with it. A list
/// on the path is replaced with a list of one item, and the failure domains with those of its
/// platform.
fn put(object: &mut Value, path: &str, value: &Value, beside: bool) {
    let mut node = object;
    for part in path.split('.') {
        let (field, list) = part.split_once('[').map_or((part, false), |(field, _)| (field, true));
        if list {
            let platforms = [("aws", "AWS"), ("openstack", "OpenStack"), ("nutanix", "Nutanix")];
            let (_, platform) = platforms.iter().find(|(name, _)| *name == field).unwrap();
            *node = json!({"platform": platform, field: [{}]});
            node = &mut node[field][0];
        } else {
            node = &mut node[field];
        }
    }
    match (beside, node.as_object_mut(), value.as_object()) {
        (true, Some(there), Some(value)) => there.extend(value.clone()),
        _ => *node = value.clone(),
    }
}
