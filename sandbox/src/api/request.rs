//! The requests that the API accepts.

use capstan_core::model::{Propagation, User};
use serde_json::Value;

use super::selector::Selector;

/// The objects of a request.
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
    /// The part of the object.
    pub part: Part,
}

/// A part of an object: the object itself or a subresource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Part {
    /// The object; without its status if the kind has a status subresource.
    #[default]
    Main,
    /// The status.
    Status,
    /// The number of replicas, as a `Scale` of `autoscaling/v1`.
    Scale,
}

impl Part {
    /// The name of the subresource in a URL; empty for the object itself.
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
    /// The objects.
    pub target: Target,
    /// The operation.
    pub verb: Verb,
    /// The user that sends the request.
    pub user: User,
}

/// The operation of a request, with its body and options.
#[derive(Clone, Debug)]
pub enum Verb {
    /// Read one object.
    Get,
    /// Read several objects.
    List(ListOptions),
    /// Create an object.
    Create(Value, WriteOptions),
    /// Replace an object.
    Update(Value, WriteOptions),
    /// Patch an object.
    Patch(PatchKind, Value, WriteOptions),
    /// Delete an object.
    Delete(DeleteOptions),
    /// Delete several objects.
    DeleteCollection(ListOptions, DeleteOptions),
}

impl Verb {
    /// Whether the request can change stored objects.
    pub fn is_write(&self) -> bool {
        !matches!(self, Self::Get | Self::List(_))
    }

    /// Whether the request stores nothing.
    pub fn is_dry_run(&self) -> bool {
        match self {
            Self::Get | Self::List(_) => false,
            Self::Create(_, options) | Self::Update(_, options) | Self::Patch(_, _, options) => options.dry_run,
            Self::Delete(options) | Self::DeleteCollection(_, options) => options.dry_run,
        }
    }
}

/// The format of a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchKind {
    /// RFC 6902.
    Json,
    /// RFC 7386.
    Merge,
    /// The Kubernetes format that merges lists by the keys of their items; for built-in kinds only.
    Strategic,
    /// Server-side apply.
    Apply,
}

/// Options of a write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// Whether to answer without storing anything.
    pub dry_run: bool,
    /// The field manager.
    pub manager: String,
    /// Server-side apply: whether to take conflicting fields from other managers.
    pub force: bool,
    /// `Strict`, `Warn` or `Ignore` for unknown fields; empty for `Warn`.
    pub field_validation: String,
}

/// Options of a deletion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    /// Whether to answer without storing anything.
    pub dry_run: bool,
    /// Precondition: the uid of the object.
    pub uid: Option<String>,
    /// Precondition: the resource version of the object.
    pub resource_version: Option<String>,
    /// What happens to the dependants; `None` is the default of the kind.
    pub propagation: Option<Propagation>,
}

/// Options of a list.
#[derive(Clone, Debug, Default)]
pub struct ListOptions {
    /// The objects to list.
    pub selector: Selector,
    /// The largest number of objects in the answer; 0 means no limit.
    pub limit: usize,
    /// The token of the page, from an earlier answer.
    pub continue_: String,
}
