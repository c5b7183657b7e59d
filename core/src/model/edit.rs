//! An edit: the user, the operation and the object of an admission review.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Stored;

/// The operation of an edit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// The object is created.
    Create,
    /// The object is changed.
    Update,
    /// The deletion of the object is requested.
    Delete,
    /// A connection to a subresource is opened.
    Connect,
}

impl Operation {
    /// The operation as an AdmissionReview writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }

    /// Reads the operation of an AdmissionReview.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Create, Self::Update, Self::Delete, Self::Connect]
            .into_iter()
            .find(|known| known.as_str() == word)
    }
}

/// What the garbage collector does with the dependants of an object that is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// The object is deleted after its dependants.
    Foreground,
    /// The object is deleted first, and the garbage collector deletes its dependants.
    Background,
    /// The dependants are kept.
    Orphan,
}

impl Propagation {
    /// Reads the propagation policy of `DeleteOptions`.
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "Foreground" => Some(Self::Foreground),
            "Background" => Some(Self::Background),
            "Orphan" => Some(Self::Orphan),
            _ => None,
        }
    }
}

/// The user of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// The user's name; `system:serviceaccount:NAMESPACE:NAME` for a service account.
    pub name: String,
    /// The user's groups.
    pub groups: Vec<String>,
    /// Other attributes of the user, from the API server.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// The prefix of the names of all service accounts.
    pub const SERVICE_ACCOUNT: &str = "system:serviceaccount:";
    /// The key of `extra` with the id of the token of the request. A request that impersonates a
    /// service account has no such id. A user can set the key only with the permission
    /// `impersonate` on `userextras/authentication.kubernetes.io/credential-id`.
    pub const CREDENTIAL: &str = "authentication.kubernetes.io/credential-id";

    /// A user of this name that is not impersonated: a service account has a token of its own.
    pub fn named(name: &str, groups: Vec<String>) -> Self {
        let mut extra = BTreeMap::new();
        if name.starts_with(Self::SERVICE_ACCOUNT) {
            extra.insert(Self::CREDENTIAL.to_owned(), Vec::new());
        }
        Self {
            name: name.to_owned(),
            groups,
            extra,
        }
    }

    /// Whether the request is not impersonated: a service account has used a token of its own. The
    /// identity of other users cannot be verified further.
    pub fn is_itself(&self) -> bool {
        !self.name.starts_with(Self::SERVICE_ACCOUNT) || self.extra.contains_key(Self::CREDENTIAL)
    }
}

/// An operation of a user on an object.
#[derive(Clone, Copy, Debug)]
pub struct Edit<'a> {
    /// The operation.
    pub operation: Operation,
    /// `scale`, `status`, or empty for the object itself.
    pub subresource: &'a str,
    /// Namespace of the object; empty for a cluster-scoped kind.
    pub namespace: &'a str,
    /// Name of the object.
    pub name: &'a str,
    /// The object after the edit; absent on deletion.
    pub object: Option<&'a Value>,
    /// The stored object; absent on creation.
    pub old: Option<&'a dyn Stored>,
    /// What happens to the dependants, if the deletion specifies it.
    pub propagation: Option<Propagation>,
    /// The user of the request.
    pub user: &'a User,
    /// Whether the request is a dry run, which stores nothing.
    pub dry_run: bool,
}

impl Edit<'_> {
    /// Whether the deletion of the stored object was requested before.
    pub fn is_deleting(&self) -> bool {
        let deletion = |object: &dyn Stored| object.at("metadata.deletionTimestamp").is_some_and(|at| !at.is_null());
        self.old.is_some_and(deletion) || self.object.is_some_and(|object| deletion(object))
    }
}
