//! What a client must know about a kind before it can read or write its objects.
//!
//! A kind is known when Capstan is built (`kinds`), or at run time: infrastructure templates, for
//! example, are named by the objects that refer to them. Both are the same type.

use std::borrow::Cow;

use crate::model::ObjectRef;

/// Whether objects of a kind live in a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Each object has a namespace.
    Namespaced,
    /// Objects have no namespace.
    Cluster,
}

/// A kind: where an API server serves it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KindInfo {
    /// The API group; empty for the core group.
    pub group: Cow<'static, str>,
    /// The version that Capstan reads and writes.
    pub version: Cow<'static, str>,
    /// The kind, in CamelCase.
    pub kind: Cow<'static, str>,
    /// The lower-case plural, as in the path of a request.
    pub plural: Cow<'static, str>,
    /// Whether its objects live in a namespace.
    pub scope: Scope,
}

impl KindInfo {
    /// A namespaced kind of `api_version`, which is `group/version`, or `version` for the core
    /// group.
    pub const fn namespaced(
        group: &'static str,
        version: &'static str,
        kind: &'static str,
        plural: &'static str,
    ) -> Self {
        Self::new(group, version, kind, plural, Scope::Namespaced)
    }

    /// A cluster-scoped kind.
    pub const fn cluster(group: &'static str, version: &'static str, kind: &'static str, plural: &'static str) -> Self {
        Self::new(group, version, kind, plural, Scope::Cluster)
    }

    const fn new(
        group: &'static str,
        version: &'static str,
        kind: &'static str,
        plural: &'static str,
        scope: Scope,
    ) -> Self {
        Self {
            group: Cow::Borrowed(group),
            version: Cow::Borrowed(version),
            kind: Cow::Borrowed(kind),
            plural: Cow::Borrowed(plural),
            scope,
        }
    }

    /// `group/version`, or `version` for the core group.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_string()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// The name of the CustomResourceDefinition that serves the kind. `None` for the core group,
    /// which every API server serves.
    pub fn definition(&self) -> Option<String> {
        (!self.group.is_empty()).then(|| format!("{}.{}", self.plural, self.group))
    }

    /// How `kubectl` names the resource in a message: `machines.machine.openshift.io`, `nodes`.
    pub fn title(&self) -> String {
        self.definition().unwrap_or_else(|| self.plural.to_string())
    }

    /// The key of an object of this kind. The namespace is ignored for a cluster-scoped kind.
    pub fn object(&self, namespace: &str, name: &str) -> ObjectRef {
        let namespace = match self.scope {
            Scope::Namespaced => namespace,
            Scope::Cluster => "",
        };
        ObjectRef {
            group: self.group.clone(),
            kind: self.kind.clone(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }

    /// Whether an object is of this kind, in any version.
    pub fn is_kind_of(&self, object: &ObjectRef) -> bool {
        self.group == object.group && self.kind == object.kind
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_of_the_core_group_has_no_definition() {
        const NODES: KindInfo = KindInfo::cluster("", "v1", "Node", "nodes");
        assert_eq!(NODES.api_version(), "v1");
        assert_eq!(NODES.title(), "nodes");
        assert_eq!(NODES.definition(), None);
        assert_eq!(NODES.object("ignored", "a").to_string(), "Node a");
    }

    #[test]
    fn a_kind_is_titled_as_kubectl_titles_it() {
        const TOYS: KindInfo = KindInfo::namespaced("example.org", "v1", "Toy", "toys");
        assert_eq!(TOYS.title(), "toys.example.org");
        assert_eq!(TOYS.api_version(), "example.org/v1");
        let toy = TOYS.object("home", "a");
        assert_eq!(toy.to_string(), "Toy home/a");
        assert!(TOYS.is_kind_of(&toy));
    }
}
