//! The kinds that are watched: where they are served, and which of their objects matter.

use capstan_core::api::config_openshift_io::{self, cluster_operator, feature_gate, infrastructure};
use capstan_core::api::core_v1::node;
use capstan_core::api::machine_openshift_io::{control_plane_machine_set, machine, machine_set};
use kube::api::{Api, ApiResource, DynamicObject};
use kube::runtime::watcher;

use super::object::{Cacheable, WatchedObject};

/// A kind, and which of its objects are watched.
#[derive(Clone, Debug)]
pub(super) struct Kind {
    /// Where it is served.
    pub(super) resource: ApiResource,
    /// The namespace that is watched; `None` for kinds of the whole cluster.
    namespace: Option<String>,
    /// The only object that is watched.
    name: Option<&'static str>,
}

impl Kind {
    fn new(api_version: &str, kind: &str, plural: &str) -> Self {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        Self {
            resource: ApiResource {
                group: group.to_owned(),
                version: version.to_owned(),
                api_version: api_version.to_owned(),
                kind: kind.to_owned(),
                plural: plural.to_owned(),
            },
            namespace: None,
            name: None,
        }
    }

    fn within(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.to_owned());
        self
    }

    fn named(mut self, name: &'static str) -> Self {
        self.name = Some(name);
        self
    }

    pub(super) fn machines(namespace: &str) -> Self {
        Self::new(machine::API_VERSION, machine::KIND, machine::PLURAL).within(namespace)
    }

    pub(super) fn machine_sets(namespace: &str) -> Self {
        // Of the same group and version as Machine.
        Self::new(machine::API_VERSION, machine_set::KIND, machine_set::PLURAL).within(namespace)
    }

    pub(super) fn control_plane_machine_sets(namespace: &str) -> Self {
        Self::new(
            control_plane_machine_set::API_VERSION,
            control_plane_machine_set::KIND,
            control_plane_machine_set::PLURAL,
        )
        .within(namespace)
    }

    /// A kind that exists in both APIs, or of the infrastructure behind one of them.
    pub(super) fn mirrored(api_version: &str, kind: &str, plural: &str, namespace: &str) -> Self {
        Self::new(api_version, kind, plural).within(namespace)
    }

    pub(super) fn nodes() -> Self {
        Self::new("v1", node::KIND, "nodes")
    }

    pub(super) fn infrastructure() -> Self {
        let (kind, plural) = (infrastructure::KIND, infrastructure::PLURAL);
        Self::new(config_openshift_io::API_VERSION, kind, plural).named(infrastructure::NAME)
    }

    pub(super) fn feature_gate() -> Self {
        let (kind, plural) = (feature_gate::KIND, feature_gate::PLURAL);
        Self::new(config_openshift_io::API_VERSION, kind, plural).named(feature_gate::NAME)
    }

    pub(super) fn cluster_operator(name: &'static str) -> Self {
        let (kind, plural) = (cluster_operator::KIND, cluster_operator::PLURAL);
        Self::new(config_openshift_io::API_VERSION, kind, plural).named(name)
    }

    /// The name of the CustomResourceDefinition that serves it; `None` for kinds that are always there.
    pub(super) fn definition(&self) -> Option<String> {
        let resource = &self.resource;
        (!resource.group.is_empty()).then(|| format!("{}.{}", resource.plural, resource.group))
    }

    /// How people call it in a message: `machines.machine.openshift.io`, `clusteroperators.config.openshift.io etcd`.
    pub(super) fn title(&self) -> String {
        let plural = self.definition().unwrap_or_else(|| self.resource.plural.clone());
        match self.name {
            Some(name) => format!("{plural} {name}"),
            None => plural,
        }
    }

    /// Its objects.
    pub(super) fn api<T: Cacheable>(&self, client: kube::Client) -> Api<WatchedObject<T>> {
        match &self.namespace {
            Some(namespace) => Api::namespaced_with(client, namespace, &self.resource),
            None => Api::all_with(client, &self.resource),
        }
    }

    /// Its objects, for writing.
    pub(super) fn dynamic(&self, client: kube::Client) -> Api<DynamicObject> {
        match &self.namespace {
            Some(namespace) => Api::namespaced_with(client, namespace, &self.resource),
            None => Api::all_with(client, &self.resource),
        }
    }

    /// Which of its objects are watched.
    pub(super) fn selection(&self) -> watcher::Config {
        match self.name {
            Some(name) => watcher::Config::default().fields(&format!("metadata.name={name}")),
            None => watcher::Config::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Kind;

    #[test]
    fn a_kind_is_called_as_kubectl_calls_it() {
        assert_eq!(Kind::machines("a").title(), "machines.machine.openshift.io");
        assert_eq!(
            Kind::cluster_operator("etcd").title(),
            "clusteroperators.config.openshift.io etcd"
        );
        assert_eq!(Kind::nodes().title(), "nodes");
        assert_eq!(Kind::nodes().definition(), None);
    }
}
