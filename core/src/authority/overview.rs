//! What a user wants to know of each pair in one line: which API is authoritative, whether the
//! mirror agrees, which of the two objects is paused, and since when a migration waits.
//!
//! Must never: report a migration as done before `status.authoritativeAPI` tells it.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::pair::FullObject;
use super::report;
use super::spec::{Api, Kind};
use crate::api::machine_openshift_io::authority::PAUSED;

/// One line about a pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The kind of both objects.
    pub kind: &'static str,
    /// The name of both objects.
    pub name: String,
    /// `status.authoritativeAPI`; "not set" if it is empty.
    pub authoritative: String,
    /// The condition Synchronized: "True", "False", "Unknown", or "not reported".
    pub synchronized: String,
    /// The APIs whose controllers report that they are paused.
    pub paused: Vec<&'static str>,
    /// The API that a user requests, if it is not authoritative.
    pub requested: Option<&'static str>,
    /// Since when the pair has not been as it should be.
    pub since: Option<Timestamp>,
    /// The reason, as the condition Synchronized or the deletion tells it.
    pub reason: String,
}

impl Row {
    /// The row as JSON.
    pub fn to_value(&self) -> Value {
        let since = self.since.map(|since| since.to_string());
        json!({"kind": self.kind, "name": self.name, "authoritative": self.authoritative,
            "synchronized": self.synchronized, "paused": self.paused, "requested": self.requested,
            "since": since, "reason": self.reason})
    }
}

/// The row of a pair. `cluster_api` is the object of Cluster API, if it exists.
pub fn row(kind: Kind, machine_api: &FullObject, cluster_api: Option<&FullObject>) -> Row {
    let member = &machine_api.member;
    let wanted = member.desired_api();
    let authority = member.status_authority.map(super::spec::Authority::as_str);
    let requested = (authority != Some(wanted.as_str())).then_some(wanted.as_str());
    let condition = member.synchronized.as_ref();
    let synchronized = condition.map_or("not reported", |condition| condition.status.as_str());
    let deleting = member.deleting || cluster_api.is_some_and(|object| object.member.deleting);
    let reason = match condition {
        _ if deleting => String::from("one of the two objects is being deleted"),
        Some(condition) if condition.status == "False" => format!("{}: {}", condition.reason, condition.message),
        _ if cluster_api.is_none() => String::from("Cluster API has no object of this name"),
        _ => String::new(),
    };
    Row {
        kind: kind.title(),
        name: member.name.clone(),
        authoritative: authority.unwrap_or("not set").to_owned(),
        synchronized: synchronized.to_owned(),
        paused: paused(kind, machine_api, cluster_api),
        requested,
        since: since(machine_api, requested.is_some(), synchronized),
        reason,
    }
}

fn paused(kind: Kind, machine_api: &FullObject, cluster_api: Option<&FullObject>) -> Vec<&'static str> {
    let reports = |object: &FullObject| object.condition(PAUSED) == Some("True");
    // The controller of MachineHealthChecks of the Machine API reports no condition.
    let machine_api = match kind {
        Kind::MachineHealthCheck => machine_api.member.is_paused(),
        _ => reports(machine_api),
    };
    [
        (Api::MachineApi, machine_api),
        (Api::ClusterApi, cluster_api.is_some_and(reports)),
    ]
    .into_iter()
    .filter_map(|(api, paused)| paused.then_some(api.as_str()))
    .collect()
}

/// Since when a migration is requested, or since when the mirror does not agree.
fn since(machine_api: &FullObject, requested: bool, synchronized: &str) -> Option<Timestamp> {
    let of_request = requested.then(|| written(machine_api)).flatten();
    let of_condition = || report::changed(machine_api).filter(|_| synchronized == "False");
    of_request.or_else(of_condition)
}

/// When `spec.authoritativeAPI` was written last, as the field managers tell it.
fn written(object: &FullObject) -> Option<Timestamp> {
    let entries = object
        .value
        .pointer("/metadata/managedFields")
        .and_then(Value::as_array);
    let times = entries.into_iter().flatten().filter_map(|entry| {
        entry.pointer("/fieldsV1/f:spec/f:authoritativeAPI")?;
        entry.get("time")?.as_str()?.parse::<Timestamp>().ok()
    });
    times.max()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(status: &Value, managed: &Value) -> FullObject {
        FullObject::from(
            json!({"kind": "Machine", "metadata": {"name": "a", "managedFields": managed},
            "spec": {"authoritativeAPI": "ClusterAPI"}, "status": status}),
        )
    }

    #[test]
    fn a_requested_migration_tells_since_when_and_why_it_waits() {
        let managed = json!([
            {"manager": "kubectl", "time": "2026-01-01T00:05:00Z", "fieldsV1": {"f:spec": {"f:authoritativeAPI": {}}}},
            {"manager": "other", "time": "2026-01-01T00:09:00Z", "fieldsV1": {"f:spec": {"f:taints": {}}}}]);
        let status = json!({"authoritativeAPI": "MachineAPI", "conditions": [
            {"type": "Synchronized", "status": "False", "reason": "R", "message": "spec.x: m",
                "lastTransitionTime": "2026-01-01T00:01:00Z"}]});
        let found = row(Kind::Machine, &object(&status, &managed), None);
        assert_eq!(
            (found.authoritative.as_str(), found.requested),
            ("MachineAPI", Some("ClusterAPI"))
        );
        assert_eq!(found.since, "2026-01-01T00:05:00Z".parse().ok());
        assert_eq!(
            (found.synchronized.as_str(), found.reason.as_str()),
            ("False", "R: spec.x: m")
        );
        let without = row(Kind::Machine, &object(&status, &json!([])), None);
        assert_eq!(without.since, "2026-01-01T00:01:00Z".parse().ok());
    }

    #[test]
    fn a_pair_that_is_as_it_should_be_waits_for_nothing() {
        let status = json!({"authoritativeAPI": "ClusterAPI", "conditions": [
            {"type": "Synchronized", "status": "True"}, {"type": "Paused", "status": "True"}]});
        let mirror = FullObject::from(json!({"status": {"conditions": [{"type": "Paused", "status": "False"}]}}));
        let found = row(Kind::Machine, &object(&status, &json!([])), Some(&mirror));
        assert_eq!(
            (found.requested, found.since, found.paused),
            (None, None, vec!["MachineAPI"])
        );
        assert_eq!(found.reason, "");
    }

    #[test]
    fn the_pause_of_a_health_check_is_its_annotation() {
        let check = json!({"metadata": {"name": "a", "annotations": {"cluster.x-k8s.io/paused": ""}}});
        let found = row(Kind::MachineHealthCheck, &check.into(), None);
        assert_eq!(found.paused, vec!["MachineAPI"]);
        assert_eq!(found.authoritative, "not set");
    }
}
