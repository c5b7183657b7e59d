//! Whether another sync controller mirrors Machines: OpenShift's own, which runs as
//! `machine-api-migration`. Two sync controllers would undo each other's writes, so Capstan writes
//! nothing while another one runs (decision 22).
//!
//! The Lease of the other controller tells whether it runs. A controller without a Lease is found
//! by the field managers of its writes to the Machine.
//!
//! Must never: treat a Lease that was not read as released.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

/// The Lease of OpenShift's sync and migration controllers, in the namespace of Cluster API.
pub const LEASE: &str = "machine-api-migration-leader";

/// The field managers of OpenShift's sync and migration controllers begin with one of these.
const MANAGERS: [&str; 2] = ["MachineSyncController", "MachineMigrationController"];

/// For how long a write by another sync controller counts as a sign that it runs.
const RECENT: SignedDuration = SignedDuration::from_mins(3);

/// Another sync controller that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Other {
    /// How it was recognised, as a clause.
    pub evidence: String,
    /// When the evidence expires.
    pub until: Timestamp,
}

/// A write to an object, as `managedFields` records it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldManager {
    /// The name of the field manager.
    pub manager: String,
    /// When it wrote last.
    pub time: Timestamp,
}

/// The writes of OpenShift's sync and migration controllers in `metadata.managedFields` of an
/// object.
pub fn field_managers(object: &Value) -> Vec<FieldManager> {
    let entries = object.pointer("/metadata/managedFields").and_then(Value::as_array);
    let read = |entry: &Value| {
        let manager = entry.get("manager")?.as_str()?;
        let is_known = MANAGERS.iter().any(|known| manager.starts_with(known));
        let time = entry.get("time")?.as_str()?.parse().ok()?;
        let manager = manager.to_owned();
        is_known.then_some(FieldManager { manager, time })
    };
    entries.into_iter().flatten().filter_map(read).collect()
}

/// The other sync controller that holds its Lease or wrote to the Machine a short time ago. `None`:
/// no other one runs.
pub fn running(lease: Option<&Value>, managers: &[FieldManager], now: Timestamp) -> Option<Other> {
    let by_lease = lease.and_then(holder).filter(|other| other.until > now);
    by_lease.or_else(|| {
        let newest = managers.iter().max_by_key(|manager| manager.time)?;
        let until = newest.time.saturating_add(RECENT).unwrap_or(Timestamp::MAX);
        let evidence = format!(
            "the field manager {} wrote to the Machine at {}",
            newest.manager, newest.time
        );
        (until > now).then_some(Other { evidence, until })
    })
}

/// The holder of a Lease. A Lease with a holder and without a time of renewal never expires.
fn holder(lease: &Value) -> Option<Other> {
    let spec = lease.get("spec")?;
    let holder = spec
        .get("holderIdentity")?
        .as_str()
        .filter(|holder| !holder.is_empty())?;
    let seconds = spec.get("leaseDurationSeconds").and_then(Value::as_i64).unwrap_or(15);
    let renewed = spec.get("renewTime").and_then(Value::as_str);
    let renewed: Option<Timestamp> = renewed.and_then(|time| time.parse().ok());
    let until = renewed.and_then(|time| time.checked_add(SignedDuration::from_secs(seconds)).ok());
    Some(Other {
        evidence: format!("{holder} holds the Lease {LEASE}"),
        until: until.unwrap_or(Timestamp::MAX),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn a_lease_counts_until_it_expires_or_is_released() {
        let lease = |holder: &str| {
            json!({"spec": {"holderIdentity": holder, "leaseDurationSeconds": 137,
            "renewTime": "2026-01-01T00:00:00.000000Z"}})
        };
        let held = running(Some(&lease("other_1")), &[], at("2026-01-01T00:02:00Z")).unwrap();
        assert_eq!(held.until, at("2026-01-01T00:02:17Z"));
        assert!(held.evidence.starts_with("other_1 holds"), "{}", held.evidence);
        assert_eq!(running(Some(&lease("other_1")), &[], held.until), None);
        assert_eq!(running(Some(&lease("")), &[], at("2026-01-01T00:00:00Z")), None);
        assert_eq!(running(None, &[], at("2026-01-01T00:00:00Z")), None);
        let without_time = json!({"spec": {"holderIdentity": "a"}});
        let held = running(Some(&without_time), &[], at("2026-01-01T00:00:00Z")).unwrap();
        assert_eq!(held.until, Timestamp::MAX);
    }

    #[test]
    fn a_recent_write_of_another_sync_controller_counts() {
        let machine = json!({"metadata": {"managedFields": [
            {"manager": "capstan", "time": "2026-01-01T00:09:00Z"},
            {"manager": "MachineSyncController-SynchronizedCondition", "time": "2026-01-01T00:01:00Z"},
            {"manager": "MachineMigrationController-AuthoritativeAPI", "time": "2026-01-01T00:05:00Z"}]}});
        let managers = field_managers(&machine);
        assert_eq!(managers.len(), 2);
        let other = running(None, &managers, at("2026-01-01T00:07:59Z")).unwrap();
        assert_eq!(other.until, at("2026-01-01T00:08:00Z"));
        assert!(
            other.evidence.contains("MachineMigrationController"),
            "{}",
            other.evidence
        );
        assert_eq!(running(None, &managers, at("2026-01-01T00:08:00Z")), None);
    }
}
