//! Converts the status, for a controller that synchronizes both objects.
//!
//! Controllers write the status, and no user does. So nothing in it is an issue, and a value that
//! the other API does not have is left out.
//!
//! Must never: take the time of a condition from a clock.

use serde_json::{Map, Value, json};

use super::Context;
use super::platforms::Platform;
use super::tree;

/// The time of a condition when no object has one: conditions must have a time.
const UNKNOWN_TIME: &str = "1970-01-01T00:00:00Z";
/// The addresses that both APIs know.
const ADDRESSES: [&str; 5] = ["Hostname", "ExternalIP", "InternalIP", "ExternalDNS", "InternalDNS"];

/// Writes a status that is not empty.
pub(super) fn put(object: &mut Value, status: Map<String, Value>) {
    if let Some(fields) = object.as_object_mut().filter(|_| !status.is_empty()) {
        fields.insert(String::from("status"), status.into());
    }
}

fn copy(from: &Value, path: &str, to: &mut Map<String, Value>, at: &str) {
    if let Some(value) = tree::get(from, path) {
        tree::put(to, at, value.clone());
    }
}

fn addresses(status: &Value) -> Option<Value> {
    let known: Vec<Value> = tree::get(status, "addresses")?
        .as_array()?
        .iter()
        .filter(|address| tree::text(address, "type").is_some_and(|kind| ADDRESSES.contains(&kind)))
        .cloned()
        .collect();
    Some(known.into())
}

/// Makes conditions, with the times of the mirror where the status did not change.
struct Conditions<'a> {
    mirror: Option<&'a Value>,
    time: String,
    list: Vec<Value>,
}

impl<'a> Conditions<'a> {
    fn new(object: &Value, path: &str, context: &Context<'a>) -> Self {
        let time = ["status.lastUpdated", "metadata.creationTimestamp"]
            .iter()
            .find_map(|path| tree::text(object, path));
        Self {
            mirror: context.mirror.and_then(|mirror| tree::get(mirror, path)),
            time: time.unwrap_or(UNKNOWN_TIME).to_owned(),
            list: Vec::new(),
        }
    }

    fn time(&self, kind: &str, status: &str) -> &str {
        let of_mirror = self
            .mirror
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .find(|condition| {
                tree::text(condition, "type") == Some(kind) && tree::text(condition, "status") == Some(status)
            });
        of_mirror
            .and_then(|condition| tree::text(condition, "lastTransitionTime"))
            .unwrap_or(&self.time)
    }

    fn add(&mut self, kind: &str, is_true: bool, reasons: (&str, &str)) {
        let (status, reason) = if is_true {
            ("True", reasons.0)
        } else {
            ("False", reasons.1)
        };
        let time = self.time(kind, status).to_owned();
        self.list.push(json!({
            "type": kind, "status": status, "reason": reason, "message": "", "lastTransitionTime": time,
        }));
    }

    /// A condition of v1beta1, which has a severity while it is false.
    fn add_deprecated(&mut self, kind: &str, is_true: bool, reason: &str, severity: &str) {
        let status = if is_true { "True" } else { "False" };
        let time = self.time(kind, status).to_owned();
        let mut condition = json!({"type": kind, "status": status, "lastTransitionTime": time});
        if let Some(fields) = condition.as_object_mut().filter(|_| !is_true) {
            if !reason.is_empty() {
                fields.insert(String::from("reason"), reason.into());
            }
            if !severity.is_empty() {
                fields.insert(String::from("severity"), severity.into());
            }
        }
        self.list.push(condition);
    }
}

/// The status of a Machine of Cluster API.
pub(super) fn to_cluster_api(object: &Value, context: &Context<'_>) -> Map<String, Value> {
    let mut converted = Map::new();
    let Some(status) = tree::get(object, "status").filter(|status| status.is_object()) else {
        return converted;
    };
    copy(status, "nodeRef.name", &mut converted, "nodeRef.name");
    copy(status, "lastUpdated", &mut converted, "lastUpdated");
    copy(status, "phase", &mut converted, "phase");
    copy(
        status,
        "errorReason",
        &mut converted,
        "deprecated.v1beta1.failureReason",
    );
    copy(
        status,
        "errorMessage",
        &mut converted,
        "deprecated.v1beta1.failureMessage",
    );
    if let Some(addresses) = addresses(status) {
        converted.insert(String::from("addresses"), addresses);
    }
    let phase = tree::text(status, "phase").unwrap_or_default();
    let provisioned = ["Provisioned", "Running", "Deleting"].contains(&phase);
    let bootstrapped = ["Running", "Deleting"].contains(&phase);
    let running = phase == "Running";
    if !phase.is_empty() {
        tree::put(
            &mut converted,
            "initialization.infrastructureProvisioned",
            provisioned.into(),
        );
        tree::put(
            &mut converted,
            "initialization.bootstrapDataSecretCreated",
            bootstrapped.into(),
        );
    }
    let node_ready = bootstrapped && tree::text(status, "nodeRef.name").is_some();
    let deleting = tree::text(object, "metadata.deletionTimestamp").is_some();
    let mut conditions = Conditions::new(object, "status.conditions", context);
    conditions.add("Available", running, ("Available", "NotAvailable"));
    conditions.add("Ready", running, ("Ready", "NotReady"));
    conditions.add("BootstrapConfigReady", bootstrapped, ("Ready", "NotReady"));
    conditions.add("InfrastructureReady", provisioned, ("Ready", "NotReady"));
    conditions.add("NodeReady", node_ready, ("NodeReady", "NodeNotReady"));
    conditions.add("Deleting", deleting, ("Deleting", "NotDeleting"));
    converted.insert(String::from("conditions"), conditions.list.into());
    let mut old = Conditions::new(object, "status.deprecated.v1beta1.conditions", context);
    old.add_deprecated("Ready", running, "", "Error");
    old.add_deprecated("BootstrapReady", bootstrapped, "", "Info");
    old.add_deprecated("InfrastructureReady", provisioned, "WaitingForInfrastructure", "Info");
    tree::put(&mut converted, "deprecated.v1beta1.conditions", old.list.into());
    converted
}

/// The status of a Machine of the Machine API.
pub(super) fn to_machine_api(object: &Value, context: &Context<'_>) -> Map<String, Value> {
    let mut converted = Map::new();
    let Some(status) = tree::get(object, "status").filter(|status| status.is_object()) else {
        return converted;
    };
    if let Some(name) = tree::text(status, "nodeRef.name") {
        // The Machine API stores more of the reference, such as the uid of the node.
        let known = context.mirror.and_then(|mirror| tree::get(mirror, "status.nodeRef"));
        let known = known.filter(|known| tree::text(known, "name") == Some(name)).cloned();
        let node = || json!({"apiVersion": "v1", "kind": "Node", "name": name});
        converted.insert(String::from("nodeRef"), known.unwrap_or_else(node));
    }
    copy(status, "lastUpdated", &mut converted, "lastUpdated");
    copy(
        status,
        "deprecated.v1beta1.failureReason",
        &mut converted,
        "errorReason",
    );
    copy(
        status,
        "deprecated.v1beta1.failureMessage",
        &mut converted,
        "errorMessage",
    );
    if let Some(addresses) = addresses(status) {
        converted.insert(String::from("addresses"), addresses);
    }
    let phase = match tree::text(status, "phase").unwrap_or_default() {
        "Deleted" => "Deleting",
        phase @ ("Provisioning" | "Provisioned" | "Running" | "Deleting" | "Failed") => phase,
        _ => "",
    };
    if !phase.is_empty() {
        converted.insert(String::from("phase"), phase.into());
    }
    if let Some(infrastructure) = context.infrastructure_machine.found()
        && let Some(state) = tree::text(infrastructure, "status.instanceState")
    {
        tree::put(&mut converted, "providerStatus.instanceState", state.into());
        if let Some(id) = tree::text(infrastructure, "spec.instanceID") {
            tree::put(&mut converted, "providerStatus.instanceId", id.into());
        }
        if tree::text(infrastructure, "kind") == Some("AWSMachine") {
            let status = aws_to_machine_api(infrastructure, state, context);
            for (field, value) in status {
                tree::put(&mut converted, &format!("providerStatus.{field}"), value);
            }
        }
    }
    // These fields belong to the controllers of the migration, which keep them on the mirror.
    for field in [
        "authoritativeAPI",
        "synchronizedAPI",
        "synchronizedGeneration",
        "conditions",
        "lastOperation",
    ] {
        if let Some(mirror) = context.mirror {
            copy(mirror, &format!("status.{field}"), &mut converted, field);
        }
    }
    converted
}

/// The provider status that only AWS has: the dedicated host, and whether the instance was created.
fn aws_to_machine_api(infrastructure: &Value, state: &str, context: &Context<'_>) -> Map<String, Value> {
    let mut converted = Map::new();
    copy(
        infrastructure,
        "status.dedicatedHost.id",
        &mut converted,
        "dedicatedHost.id",
    );
    let created = state == "running";
    let mut conditions = Conditions::new(infrastructure, "status.providerStatus.conditions", context);
    let reasons = ("MachineCreationSucceeded", "MachineCreationFailed");
    conditions.add("MachineCreation", created, reasons);
    let message = if created {
        "Machine successfully created"
    } else {
        "See AWSMachine conditions."
    };
    if let Some(Value::Object(condition)) = conditions.list.first_mut() {
        condition.insert(String::from("message"), message.into());
    }
    converted.insert(String::from("conditions"), conditions.list.into());
    converted
}

/// The status that only an AWSMachine has: whether it is a spot instance, and its dedicated host.
fn aws_to_cluster_api(status: &Value, machine: &Value, converted: &mut Map<String, Value>) {
    let is_spot = tree::get(machine, "spec.spotMarketOptions").is_some();
    if is_spot {
        converted.insert(String::from("interruptible"), true.into());
    }
    copy(status, "providerStatus.dedicatedHost.id", converted, "dedicatedHost.id");
}

/// Adds the status of an infrastructure machine.
pub(super) fn infrastructure_to_cluster_api(platform: &Platform, object: &Value, machine: &mut Value) {
    let mut converted = Map::new();
    let Some(status) = tree::get(object, "status") else {
        return;
    };
    let phase = tree::text(status, "phase").unwrap_or_default();
    let state = tree::text(status, "providerStatus.instanceState");
    if let (Some(state), true) = (state, platform.has_instance_state) {
        converted.insert(String::from("instanceState"), state.into());
    }
    let ready = match state {
        Some(state) => ["running", "ACTIVE", "RUNNING", "Succeeded"].contains(&state),
        None => ["Provisioned", "Running"].contains(&phase),
    };
    converted.insert(String::from("ready"), ready.into());
    if let Some(addresses) = addresses(status) {
        converted.insert(String::from("addresses"), addresses);
    }
    if platform.id == "aws" {
        aws_to_cluster_api(status, machine, &mut converted);
    }
    put(machine, converted);
}

/// The status of a MachineSet of Cluster API. `converted` is the rest of the object.
pub(super) fn set_to_cluster_api(object: &Value, converted: &Value, context: &Context<'_>) -> Map<String, Value> {
    let mut set = Map::new();
    let Some(status) = tree::get(object, "status").filter(|status| status.is_object()) else {
        return set;
    };
    let count = |path: &str| tree::get(status, path).and_then(Value::as_i64).unwrap_or(0);
    let (replicas, ready, available) = (count("replicas"), count("readyReplicas"), count("availableReplicas"));
    set.insert(String::from("replicas"), replicas.into());
    for (field, count) in [("readyReplicas", ready), ("availableReplicas", available)] {
        if count != 0 {
            set.insert(field.to_owned(), count.into());
        }
        tree::put(&mut set, &format!("deprecated.v1beta1.{field}"), count.into());
    }
    let labeled = count("fullyLabeledReplicas");
    tree::put(&mut set, "deprecated.v1beta1.fullyLabeledReplicas", labeled.into());
    set.insert(String::from("upToDateReplicas"), json!(0));
    copy(status, "errorReason", &mut set, "deprecated.v1beta1.failureReason");
    copy(status, "errorMessage", &mut set, "deprecated.v1beta1.failureMessage");
    if let Some(selector) = tree::get(converted, "spec.selector").and_then(selector_text) {
        set.insert(String::from("selector"), selector.into());
    }
    let wanted = tree::get(object, "spec.replicas").and_then(Value::as_i64).unwrap_or(1);
    let deleting = tree::text(object, "metadata.deletionTimestamp").is_some();
    let mut conditions = Conditions::new(object, "status.conditions", context);
    conditions.add("Deleting", deleting, ("Deleting", "NotDeleting"));
    conditions.add("ScalingUp", replicas < wanted, ("ScalingUp", "NotScalingUp"));
    conditions.add("ScalingDown", replicas > wanted, ("ScalingDown", "NotScalingDown"));
    conditions.add("MachinesReady", ready == wanted, ("Ready", "NotReady"));
    conditions.add("MachinesUpToDate", labeled == wanted, ("UpToDate", "NotUpToDate"));
    set.insert(String::from("conditions"), conditions.list.into());
    let (complete, all_ready) = (replicas == wanted, ready == wanted);
    let mut old = Conditions::new(object, "status.deprecated.v1beta1.conditions", context);
    old.add_deprecated("MachinesCreated", complete, "", "");
    old.add_deprecated("MachinesReady", all_ready, "", "");
    old.add_deprecated("Ready", complete && all_ready, "", "");
    old.add_deprecated("Resized", complete, "", "");
    tree::put(&mut set, "deprecated.v1beta1.conditions", old.list.into());
    set
}

/// A selector of labels as text. `None` if it has expressions.
fn selector_text(selector: &Value) -> Option<String> {
    if selector.get("matchExpressions").is_some() {
        return None;
    }
    let labels = selector.get("matchLabels")?.as_object()?;
    let pairs = labels
        .iter()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()));
    Some(pairs.collect::<Vec<_>>().join(","))
}

/// The status of a MachineSet of the Machine API.
pub(super) fn set_to_machine_api(object: &Value) -> Map<String, Value> {
    let mut set = Map::new();
    let Some(status) = tree::get(object, "status").filter(|status| status.is_object()) else {
        return set;
    };
    copy(status, "replicas", &mut set, "replicas");
    for field in ["readyReplicas", "availableReplicas", "fullyLabeledReplicas"] {
        copy(status, &format!("deprecated.v1beta1.{field}"), &mut set, field);
    }
    copy(status, "deprecated.v1beta1.failureReason", &mut set, "errorReason");
    copy(status, "deprecated.v1beta1.failureMessage", &mut set, "errorMessage");
    copy(status, "selector", &mut set, "labelSelector");
    set
}
