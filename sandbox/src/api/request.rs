//! What can be asked of the API.

use capstan_core::model::{Propagation, User};
use serde_json::Value;

use super::selector::Selector;

/// Which objects a request is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Group of the kind; empty for the core group.
    pub group: String,
    /// Plural of the kind.
    pub plural: String,
    /// Namespace; empty for cluster-scoped kinds and for lists over all namespaces.
    pub namespace: String,
    /// Name; empty for collections.
    pub name: String,
    /// Which part of the object.
    pub part: Part,
}

/// Which part of an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Part {
    /// All of it; of a kind with a status subresource, all but the status.
    #[default]
    Main,
    /// The status.
    Status,
    /// The number of replicas, as `autoscaling/v1`.
    Scale,
}

impl Part {
    /// As it stands in a URL.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Main => "",
            Self::Status => "status",
            Self::Scale => "scale",
        }
    }
}

/// A request.
#[derive(Clone, Debug)]
pub struct Request {
    /// Which objects.
    pub target: Target,
    /// What is asked.
    pub verb: Verb,
    /// Who asks.
    pub user: User,
}

/// What is asked.
#[derive(Clone, Debug)]
pub enum Verb {
    /// Read one object.
    Get,
    /// Read many.
    List(ListOptions),
    /// Make one.
    Create(Value, WriteOptions),
    /// Replace one.
    Update(Value, WriteOptions),
    /// Change one.
    Patch(PatchKind, Value, WriteOptions),
    /// Ask for the deletion of one.
    Delete(DeleteOptions),
    /// Ask for the deletion of many.
    DeleteCollection(ListOptions, DeleteOptions),
}

impl Verb {
    /// Whether something may be stored.
    pub fn is_write(&self) -> bool {
        !matches!(self, Self::Get | Self::List(_))
    }
}

/// How a patch is to be understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchKind {
    /// RFC 6902.
    Json,
    /// RFC 7386.
    Merge,
    /// Kubernetes' own, which knows lists by their keys; built-in kinds only.
    Strategic,
    /// Server-side apply.
    Apply,
}

/// Options of a write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// Answer as if, store nothing.
    pub dry_run: bool,
    /// Who writes, as it stands in `managedFields`.
    pub manager: String,
    /// Server-side apply: take fields away from other managers.
    pub force: bool,
    /// `Strict`, `Warn` or `Ignore` for unknown fields; empty for `Warn`.
    pub field_validation: String,
}

/// Options of a deletion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    /// Answer as if, store nothing.
    pub dry_run: bool,
    /// Only an object of this uid.
    pub uid: Option<String>,
    /// Only an object of this version.
    pub resource_version: Option<String>,
    /// What becomes of its dependants; `None` is what the kind does by default.
    pub propagation: Option<Propagation>,
}

/// Options of a list.
#[derive(Clone, Debug, Default)]
pub struct ListOptions {
    /// Which objects.
    pub selector: Selector,
    /// At most so many; 0 is no limit.
    pub limit: usize,
    /// Where to go on, as an earlier answer said.
    pub continue_: String,
}
