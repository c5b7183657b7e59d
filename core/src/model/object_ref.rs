//! The key of an object: group, kind, namespace and name.
//!
//! Caches, the write tracker, the cluster port and events use this key. A name is not unique: two
//! namespaces may have objects of the same name, and two groups may have kinds of the same name.

use std::borrow::Cow;
use std::fmt;

/// Namespace and name of an object of a known kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NamespacedName {
    /// The namespace; empty for an object of a cluster-scoped kind.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl NamespacedName {
    /// The key of an object in a namespace. The namespace of a cluster-scoped object is empty.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }
}

impl fmt::Display for NamespacedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            f.write_str(&self.name)
        } else {
            write!(f, "{}/{}", self.namespace, self.name)
        }
    }
}

/// Group, kind, namespace and name of an object. The version is left out, because an API server
/// serves the same object in every version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectRef {
    /// The API group; empty for the core group.
    pub group: Cow<'static, str>,
    /// The kind, in CamelCase.
    pub kind: Cow<'static, str>,
    /// The namespace; empty for an object of a cluster-scoped kind.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl ObjectRef {
    /// Namespace and name.
    pub fn key(&self) -> NamespacedName {
        NamespacedName::new(self.namespace.as_str(), self.name.as_str())
    }
}

/// The form of messages: `ControlPlaneMachineSet openshift-machine-api/cluster`.
impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.kind)?;
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        f.write_str(&self.name)
    }
}
