//! The types that all modules share. Nothing here depends on a kind, a rule or an API server.

mod api_server;
mod conditions;
mod edit;
mod link;
mod names;
mod not_stored;
mod object_ref;
mod path;
mod pause;
mod pending;
mod plan;
mod quantity;
mod quorum;
mod reported;
mod revision;
mod similar;
mod stored;
mod verdict;
mod violation;

pub use api_server::ApiServer;
pub use conditions::{NewCondition, StoredCondition, merge_conditions, standard_conditions};
pub use edit::{Edit, Operation, Propagation, User};
pub use link::{DOCUMENTATION, has_link, refusal_link, rule_link};
pub use names::{is_label_key, is_label_name, is_label_value, is_subdomain};
pub use not_stored::NotStored;
pub use object_ref::{NamespacedName, ObjectRef};
pub use path::FieldPath;
pub use pause::{PAUSED_ROLLOUT, pauses_rollout};
pub use pending::{
    PENDING_CREATIONS, PendingCreation, UnreadablePendingCreations, pending_creations, pending_creations_patch,
};
pub use plan::{Act, Degradation, Plan, Precondition, Step, Wait};
pub use quantity::normalize_quantity;
pub use quorum::{EtcdMember, MembershipChange, Quorum, UnknownMembers, quorum_after};
pub use reported::{ReportedCondition, changed_conditions, merge_reported, status_patch};
pub use revision::{canonical_json, derived_suffix, hex_hash};
pub use similar::distance;
pub use stored::{Stored, is_same};
pub use verdict::{LONGEST_WARNING, LONGEST_WARNINGS, RuleInfo, Verdict, Warning};
pub use violation::{NO_FIELD, Violation, ViolationKind, shorten, sort_violations};
