//! An edit: who wants to do what to which object. What admission judges.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Stored;

/// What is done to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// The object comes into being.
    Create,
    /// The object changes.
    Update,
    /// The object's deletion is asked for.
    Delete,
    /// A connection to a subresource is opened.
    Connect,
}

impl Operation {
    /// The word for it in an AdmissionReview.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }

    /// Reads the word of an AdmissionReview.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Create, Self::Update, Self::Delete, Self::Connect]
            .into_iter()
            .find(|known| known.as_str() == word)
    }
}

/// What becomes of the dependants of an object that is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// The object stays until the garbage collector deleted its dependants.
    Foreground,
    /// The object goes, and the garbage collector deletes its dependants.
    Background,
    /// The dependants stay.
    Orphan,
}

impl Propagation {
    /// Reads the word of `DeleteOptions`.
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "Foreground" => Some(Self::Foreground),
            "Background" => Some(Self::Background),
            "Orphan" => Some(Self::Orphan),
            _ => None,
        }
    }
}

/// Who asks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// The user's name; `system:serviceaccount:NAMESPACE:NAME` for a service account.
    pub name: String,
    /// The user's groups.
    pub groups: Vec<String>,
    /// What the API server says of the user besides.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// What the name of every service account begins with.
    pub const SERVICE_ACCOUNT: &str = "system:serviceaccount:";
    /// The key of `extra` under which the API server names the token that it was shown. Somebody
    /// who acts as a service account (impersonation) has shown none; to forge the key takes a
    /// permission of its own, `impersonate` on
    /// `userextras/authentication.kubernetes.io/credential-id`.
    pub const CREDENTIAL: &str = "authentication.kubernetes.io/credential-id";

    /// Somebody of this name who is nobody else: a service account with its token.
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

    /// Whether the user is who the name says: a service account has shown a token of its own. Of
    /// other users the name is all that there is.
    pub fn is_itself(&self) -> bool {
        !self.name.starts_with(Self::SERVICE_ACCOUNT) || self.extra.contains_key(Self::CREDENTIAL)
    }
}

/// Who wants to do what to which object.
#[derive(Clone, Copy, Debug)]
pub struct Edit<'a> {
    /// What is done.
    pub operation: Operation,
    /// `scale`, `status`, or empty for the object itself.
    pub subresource: &'a str,
    /// Namespace of the object; empty for a cluster-scoped kind.
    pub namespace: &'a str,
    /// Name of the object.
    pub name: &'a str,
    /// The object as it would be; absent on deletion.
    pub object: Option<&'a Value>,
    /// The object as it is; absent on creation.
    pub old: Option<&'a dyn Stored>,
    /// What becomes of the dependants, where a deletion says so.
    pub propagation: Option<Propagation>,
    /// Who asks.
    pub user: &'a User,
    /// Whether nothing will be stored.
    pub dry_run: bool,
}

impl Edit<'_> {
    /// Whether the object, as it is, was asked to be deleted already.
    pub fn is_deleting(&self) -> bool {
        let deletion = |object: &dyn Stored| object.at("metadata.deletionTimestamp").is_some_and(|at| !at.is_null());
        self.old.is_some_and(deletion) || self.object.is_some_and(|object| deletion(object))
    }
}
