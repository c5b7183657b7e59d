//! The versions of kinds of infrastructure, from the labels of their CRDs. The conversion of a
//! KubeadmControlPlane to `v1beta1` adds them to references.
//!
//! A label `cluster.x-k8s.io/<contract>` lists the versions of a CRD that follow a contract of
//! Cluster API, separated by `_`.

use futures::StreamExt;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::PartialObjectMeta;
use kube::runtime::reflector::{self, Store};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, ResourceExt};

type Definition = PartialObjectMeta<CustomResourceDefinition>;

/// The contracts of Cluster API, the newest first.
const CONTRACTS: [&str; 2] = ["cluster.x-k8s.io/v1beta2", "cluster.x-k8s.io/v1beta1"];

/// The metadata of the CRDs of a cluster.
pub(super) struct InfrastructureVersions(Store<Definition>);

impl InfrastructureVersions {
    /// Follows the CRDs of a cluster.
    pub(super) fn follow(client: Client) -> Self {
        let (store, writer) = reflector::store();
        let definitions = watcher(Api::<Definition>::all(client), watcher::Config::default());
        let kept = definitions.modify(|definition| {
            definition.metadata.managed_fields = None;
            definition.metadata.annotations = None;
        });
        let events = kept.default_backoff().reflect(writer).touched_objects();
        tokio::spawn(events.for_each(|_| std::future::ready(())));
        Self(store)
    }

    /// Whether the CRDs are known. A cluster with this feature has at least those of the feature.
    pub(super) fn is_known(&self) -> bool {
        !self.0.is_empty()
    }

    /// The version of a kind; `None` if no CRD names one.
    pub(super) fn of(&self, group: &str, kind: &str) -> Option<String> {
        let names = plurals(kind).map(|plural| format!("{plural}.{group}"));
        let definition = self.0.find(|definition| names.contains(&definition.name_any()))?;
        let labels = definition.labels();
        let versions = CONTRACTS.iter().find_map(|contract| labels.get(*contract))?;
        newest(versions)
    }
}

/// The plurals that the CRD of a kind may have in its name.
fn plurals(kind: &str) -> [String; 3] {
    let singular = kind.to_lowercase();
    let stem = singular.strip_suffix('y').unwrap_or(&singular);
    [format!("{singular}s"), format!("{stem}ies"), format!("{singular}es")]
}

/// The newest of versions such as `v1beta1_v1beta2`, in the order of Kubernetes: stable versions
/// before beta before alpha, then by number.
fn newest(versions: &str) -> Option<String> {
    let rank = |version: &str| -> (u8, u32, u32) {
        let numbers = version.trim_start_matches('v');
        let major_end = numbers.find(|c: char| !c.is_ascii_digit()).unwrap_or(numbers.len());
        let (major, rest) = numbers.split_at(major_end);
        let number = |text: &str| text.parse().unwrap_or(0);
        match (rest.strip_prefix("beta"), rest.strip_prefix("alpha")) {
            (Some(beta), _) => (1, number(major), number(beta)),
            (_, Some(alpha)) => (0, number(major), number(alpha)),
            _ => (2, number(major), 0),
        }
    };
    let newest = versions
        .split('_')
        .filter(|version| !version.is_empty())
        .max_by_key(|version| rank(version));
    newest.map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_is_chosen_in_the_order_of_kubernetes() {
        for (versions, expected) in [
            ("v1beta1_v1beta2", "v1beta2"),
            ("v1beta2_v1beta10", "v1beta10"),
            ("v1_v2beta1", "v1"),
            ("v1alpha4_v1beta1", "v1beta1"),
        ] {
            assert_eq!(newest(versions).as_deref(), Some(expected));
        }
        assert_eq!(newest(""), None);
    }

    #[test]
    fn the_name_of_a_crd_has_the_plural_of_the_kind() {
        assert!(plurals("AWSMachineTemplate").contains(&String::from("awsmachinetemplates")));
        assert!(plurals("Proxy").contains(&String::from("proxies")));
    }
}
