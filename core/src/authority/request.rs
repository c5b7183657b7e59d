//! The standing of a migration that a user requested, as the object of the Machine API tells it:
//! for a command that requests a migration and waits for its end.
//!
//! Must never: report a migration as done before `status.authoritativeAPI` tells it.

use super::pair::FullObject;
use super::recording;
use super::spec::{Api, Authority};

/// The standing of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The wanted API is authoritative.
    Done,
    /// The migration continues. The text tells how far it is.
    Pending(String),
    /// A field prevents the migration, until something changes.
    Blocked(String),
    /// The migration does not continue without a user.
    Ended(String),
}

/// The API that is authoritative, or was before the migration began. `None`: the object and its
/// mirror do not tell.
pub fn source(object: &FullObject, mirror: Option<&FullObject>) -> Option<Api> {
    let member = &object.member;
    match member.authority() {
        Authority::Stable(api) => Some(api),
        Authority::Migrating => member
            .synchronized_api
            .or_else(|| recording::source(member, mirror.map(|mirror| &*mirror.member))),
    }
}

/// Whether the object does not record which API was authoritative before its migration. Then only
/// its mirror tells.
pub fn is_stopped(object: &FullObject) -> bool {
    object.member.authority() == Authority::Migrating && object.member.synchronized_api.is_none()
}

/// The standing of the request that makes an API authoritative.
pub fn standing(object: &FullObject, mirror: Option<&FullObject>, to: Api) -> Standing {
    let member = &object.member;
    if member.deleting {
        return Standing::Ended(String::from("it is being deleted"));
    }
    if member.desired_api() != to {
        let wanted = member.desired_api().as_str();
        return Standing::Ended(format!("spec.authoritativeAPI is {wanted}: the request was changed"));
    }
    if member.status_authority == Some(Authority::Stable(to)) {
        return Standing::Done;
    }
    let source = source(object, mirror);
    if is_stopped(object) {
        return match source == Some(to) {
            true => Standing::Pending(String::from("the migration is being cancelled")),
            false => Standing::Ended(recording::stopped(source)),
        };
    }
    if let Some(condition) = member
        .synchronized
        .as_ref()
        .filter(|condition| condition.status == "False")
    {
        return Standing::Blocked(format!("{}: {}", condition.reason, condition.message));
    }
    let text = match member.status_authority {
        None => "status.authoritativeAPI is empty; the mirroring controllers of Capstan set it",
        Some(Authority::Stable(_)) => "the migration is requested, and has not begun",
        Some(Authority::Migrating) if source == Some(to) => "the migration is being cancelled",
        Some(Authority::Migrating) => "the migration has begun",
    };
    Standing::Pending(text.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn object(spec: &str, status: &Value) -> FullObject {
        FullObject::from(json!({"kind": "Machine", "metadata": {"name": "a"},
            "spec": {"authoritativeAPI": spec}, "status": status}))
    }

    #[test]
    fn a_request_is_done_when_the_status_names_the_api() {
        let at = |spec, status: Value| standing(&object(spec, &status), None, Api::ClusterApi);
        assert_eq!(
            at("ClusterAPI", json!({"authoritativeAPI": "ClusterAPI"})),
            Standing::Done
        );
        let requested = at("ClusterAPI", json!({"authoritativeAPI": "MachineAPI"}));
        assert!(matches!(requested, Standing::Pending(_)), "{requested:?}");
        let migrating = json!({"authoritativeAPI": "Migrating", "synchronizedAPI": "MachineAPI"});
        assert!(matches!(at("ClusterAPI", migrating.clone()), Standing::Pending(_)));
        assert!(matches!(at("MachineAPI", migrating), Standing::Ended(_)));
        assert_eq!(
            at("ClusterAPI", json!({"authoritativeAPI": "Migrating"})),
            Standing::Ended(recording::stopped(None))
        );
    }

    #[test]
    fn a_blocked_request_tells_the_field() {
        let status = json!({"authoritativeAPI": "MachineAPI", "conditions": [
            {"type": "Synchronized", "status": "False", "reason": "R", "message": "spec.x: m"}]});
        let standing = standing(&object("ClusterAPI", &status), None, Api::ClusterApi);
        assert_eq!(standing, Standing::Blocked(String::from("R: spec.x: m")));
    }
}
