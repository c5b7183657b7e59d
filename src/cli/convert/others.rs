//! The objects that conversions read besides their sources: the Infrastructure, the infrastructure
//! clusters, the infrastructure machines, and the objects that exist in the other API already.
//!
//! Must never: choose one of two objects by their order.

use std::collections::BTreeMap;

use anyhow::bail;
use capstan_core::api::cluster_x_k8s_io::NAMESPACE as CLUSTER_API_NAMESPACE;
use capstan_core::api::{config_openshift_io, infrastructure_cluster_x_k8s_io};
use capstan_core::conversion::{self, Api};
use serde_json::Value;

use super::super::documents::{Document, note};
use super::{group, title};

/// The objects.
pub(super) struct Others<'d> {
    pub(super) infrastructure: Option<&'d Value>,
    /// Objects of both APIs, by API, kind and name.
    pub(super) by_name: BTreeMap<(Api, &'d str, &'d str), &'d Value>,
    /// Objects of Cluster API's infrastructure, by kind, name and namespace.
    infrastructure_objects: BTreeMap<(&'d str, &'d str, &'d str), &'d Document>,
    pub(super) secrets: Vec<String>,
}

/// The infrastructure cluster of an object.
pub(super) enum InfrastructureCluster<'d> {
    /// No infrastructure cluster of the kind was given.
    Absent,
    /// The one with the name of the cluster, or the only one.
    One(&'d Value),
    /// Several were given, and none has the name of the cluster.
    Several {
        kind: &'static str,
        /// The names of those that were given.
        names: Vec<&'d str>,
    },
}

impl<'d> Others<'d> {
    /// # Errors
    /// Two objects of the same kind, namespace and name differ, so that the result would depend on
    /// their order.
    pub(super) fn new(with: &'d [Document], files: &'d [Document]) -> anyhow::Result<Self> {
        let mut infrastructure: Option<&Document> = None;
        let mut others = Self {
            infrastructure: None,
            by_name: BTreeMap::new(),
            infrastructure_objects: BTreeMap::new(),
            secrets: Vec::new(),
        };
        for document in with {
            if conversion::misspelt_group(&document.object).is_some() {
                note_unused(document);
            }
        }
        for document in with.iter().chain(files) {
            let (kind, namespace, name) = document.key();
            match (group(document), kind) {
                (config_openshift_io::GROUP, config_openshift_io::infrastructure::KIND) => {
                    one_of(infrastructure, document)?;
                    infrastructure = Some(document);
                }
                (infrastructure_cluster_x_k8s_io::GROUP, _) => {
                    let known = others.infrastructure_objects.insert((kind, name, namespace), document);
                    one_of(known, document)?;
                }
                ("", "Secret") if namespace == CLUSTER_API_NAMESPACE => others.secrets.push(name.to_owned()),
                _ => match conversion::api_of(&document.object) {
                    Some(api) => {
                        others.by_name.insert((api, kind, name), &document.object);
                    }
                    None if conversion::misspelt_group(&document.object).is_none() => note_unused(document),
                    None => {}
                },
            }
        }
        others.infrastructure = infrastructure.map(|document| &document.object);
        Ok(others)
    }

    /// An infrastructure object. One without a namespace is in every namespace.
    pub(super) fn infrastructure_object(&self, kind: &str, name: &str, namespace: &str) -> Option<&'d Value> {
        let all = &self.infrastructure_objects;
        let found = all
            .get(&(kind, name, namespace))
            .or_else(|| all.get(&(kind, name, "")))
            .or_else(|| {
                let mut all = all.iter().filter(|_| namespace.is_empty());
                let named = all.find(|((of_kind, of_name, _), _)| *of_kind == kind && *of_name == name);
                named.map(|(_, document)| document)
            });
        found.map(|document| &document.object)
    }

    /// The infrastructure cluster of an object.
    pub(super) fn cluster(&self, document: &'d Document) -> InfrastructureCluster<'d> {
        let Some(kind) = self.cluster_kind(document) else {
            return InfrastructureCluster::Absent;
        };
        if let Some(named) = self.infrastructure_object(kind, self.cluster_name(document), CLUSTER_API_NAMESPACE) {
            return InfrastructureCluster::One(named);
        }
        let of_kind = |((found, _, _), _): &(&(&str, &str, &str), &&Document)| *found == kind;
        let all: Vec<&Document> = self
            .infrastructure_objects
            .iter()
            .filter(of_kind)
            .map(|(_, document)| *document)
            .collect();
        match all.as_slice() {
            [] => InfrastructureCluster::Absent,
            [only] => InfrastructureCluster::One(&only.object),
            several => InfrastructureCluster::Several {
                kind,
                names: several.iter().map(|document| document.key().2).collect(),
            },
        }
    }

    /// The kind of the infrastructure cluster that an object belongs to.
    fn cluster_kind(&self, document: &Document) -> Option<&'static str> {
        let of_infrastructure = || conversion::cluster_kind_of_infrastructure(self.infrastructure?);
        conversion::cluster_kind(&document.object).or_else(of_infrastructure)
    }

    /// The kinds of cluster objects that the conversion of an object reads, without those that were
    /// given.
    pub(super) fn missing(&self, document: &'d Document) -> Vec<&'static str> {
        let mut missing = Vec::new();
        let Some(api) = conversion::api_of(&document.object) else {
            return missing;
        };
        if self.infrastructure.is_none() && api == Api::MachineApi {
            missing.push(config_openshift_io::infrastructure::KIND);
        }
        if let InfrastructureCluster::Absent = self.cluster(document) {
            missing.extend(self.cluster_kind(document));
        }
        missing
    }

    /// The name of the cluster that the Infrastructure has.
    pub(super) fn infrastructure_name(&self) -> Option<&'d str> {
        let name = self.infrastructure?.pointer("/status/infrastructureName")?.as_str()?;
        Some(name).filter(|name| !name.is_empty())
    }

    /// The name of the cluster that an object belongs to; empty if it is not known.
    pub(super) fn cluster_name(&self, document: &'d Document) -> &'d str {
        let of_object = || conversion::cluster_name_of(&document.object).unwrap_or_default();
        self.infrastructure_name().unwrap_or_else(of_object)
    }
}

/// Refuses two objects of the same kind, namespace and name that differ.
fn one_of(known: Option<&Document>, document: &Document) -> anyhow::Result<()> {
    match known {
        Some(known) if known.object != document.object => bail!(
            "{}: {} differs from {} at {}: the result would depend on their order; give one of them",
            document.place(),
            title(document),
            title(known),
            known.place()
        ),
        _ => Ok(()),
    }
}

/// Notes that an object is not used, if its group is probably a misspelt one.
fn note_unused(document: &Document) {
    if let Some(intended) = conversion::intended_group(&document.object) {
        note(&format!(
            "{}: {} is not used, because its group is {}; use {intended}",
            document.place(),
            title(document),
            group(document)
        ));
    }
}
