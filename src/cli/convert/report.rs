//! What `capstan convert` reports on standard error: the issues, a summary, and notes about what
//! the converted objects need or do in a cluster.

use std::collections::BTreeSet;
use std::io::Write as _;

use capstan_core::api::cluster_x_k8s_io;
use capstan_core::api::cluster_x_k8s_io::annotation::PAUSED;
use capstan_core::api::machine_openshift_io::label;
use capstan_core::conversion::{self, Api, Converted, Severity};
use serde_json::Value;

use super::super::documents::Document;
use super::others::{InfrastructureCluster, Others};
use super::title;

/// The report.
#[derive(Default)]
pub(super) struct Report {
    /// The issues.
    text: String,
    /// Objects that were to be converted.
    objects: usize,
    /// Objects that cannot be converted.
    pub(super) blocked: usize,
    /// Objects that lose values.
    pub(super) lossy: usize,
    /// Converted objects of Cluster API with taints.
    tainted: usize,
    /// Converted Machines of Cluster API with an instance.
    running: usize,
    /// Converted MachineSets of Cluster API with replicas.
    scaled: usize,
    /// Kinds of cluster objects that objects with issues need, and that were not given.
    missing: BTreeSet<&'static str>,
    /// Infrastructure clusters that do not belong to the cluster, as notes.
    clusters: BTreeSet<String>,
    /// Objects whose label names another cluster, with the first one.
    other_label: (usize, String),
    /// Objects of another platform than the cluster, with the first one.
    other_platform: (usize, String),
}

impl Report {
    /// Adds an object and its issues, each with its field, reason and remedy.
    pub(super) fn add<'d>(&mut self, document: &'d Document, converted: &Converted, others: &Others<'d>) {
        for issue in &converted.issues {
            let level = match issue.severity {
                Severity::Blocks => "error",
                Severity::Loses => "warning",
            };
            self.text.push_str(&format!(
                "{level}: {}: {}\n  --> {}\n  reason: {}\n  help: {}\n",
                title(document),
                issue.path,
                document.place(),
                issue.reason,
                issue.way_out
            ));
        }
        self.objects += 1;
        if !converted.issues.is_empty() {
            self.missing.extend(others.missing(document));
        }
        self.compare(document, others);
        if converted.is_blocked() {
            self.blocked += 1;
            return;
        }
        self.lossy += usize::from(!converted.issues.is_empty());
        self.tainted += usize::from(converted.objects.iter().any(has_taints));
        self.running += usize::from(converted.objects.iter().any(has_instance));
        self.scaled += usize::from(converted.objects.iter().any(has_replicas));
    }

    /// Compares an object of the Machine API with the Infrastructure. What differs is no issue: the
    /// name in the Infrastructure is the right one, whatever the label of an old machine says.
    fn compare<'d>(&mut self, document: &'d Document, others: &Others<'d>) {
        let object = &document.object;
        let Some(name) = others.infrastructure_name() else {
            return;
        };
        if conversion::api_of(object) != Some(Api::MachineApi) {
            return;
        }
        if let InfrastructureCluster::One(cluster) = others.cluster(document)
            && let Some(other) = conversion::cluster_of_object(cluster).filter(|other| *other != name)
        {
            let kind = cluster.get("kind").and_then(Value::as_str).unwrap_or_default();
            self.clusters.insert(format!(
                "the {kind} {other} is not the one of the cluster {name}, which the Infrastructure names; give the \
                 objects of one cluster"
            ));
        }
        if let Some(other) = conversion::cluster_name_of(object).filter(|other| *other != name) {
            count(&mut self.other_label, || {
                format!(
                    "{}: {other:?}; they are converted for the cluster {name}",
                    title(document)
                )
            });
        }
        let of_cluster = others
            .infrastructure
            .and_then(conversion::cluster_kind_of_infrastructure);
        let of_object = conversion::cluster_kind(object);
        if let (Some(of_cluster), Some(of_object)) = (of_cluster, of_object)
            && of_cluster != of_object
        {
            let platform = others
                .infrastructure
                .and_then(|object| object.pointer("/status/platformStatus/type"));
            let platform = platform.and_then(Value::as_str).unwrap_or_default();
            count(&mut self.other_platform, || {
                format!("{}; the Infrastructure has the platform {platform}", title(document))
            });
        }
    }

    /// Prints the issues and a summary.
    pub(super) fn print(&self) {
        let notes = self.notes();
        let notes: String = notes.iter().map(|text| format!("note: {text}\n")).collect();
        // If standard error is closed, the issues cannot be reported anywhere.
        let _ignored = std::io::stderr().write_all(format!("{}{notes}", self.text).as_bytes());
    }

    fn notes(&self) -> Vec<String> {
        let Self {
            objects,
            blocked,
            lossy,
            tainted,
            running,
            scaled,
            ..
        } = self;
        let mut notes = Vec::new();
        if *objects == 0 {
            notes.push(String::from(
                "nothing was converted: the input contains no object to convert",
            ));
        } else if blocked + lossy > 0 {
            notes.push(format!(
                "{} of {objects} objects converted without loss, {lossy} lose values, {blocked} cannot be converted",
                objects - blocked - lossy,
            ));
        }
        if *tainted > 0 {
            notes.push(format!(
                "{tainted} of {objects} objects have taints, which Cluster API refuses unless its feature gate \
                 MachineTaintPropagation is on"
            ));
        }
        let remedy = format!("use `capstan migrate`, or apply them with the annotation {PAUSED}, as the help shows");
        if *running > 0 {
            notes.push(format!(
                "{running} of {objects} objects are Machines with an instance, and they are not paused: beside the \
                 Machines that they are made from, two APIs would act on each instance; {remedy}"
            ));
        }
        if *scaled > 0 {
            notes.push(format!(
                "{scaled} of {objects} objects are MachineSets with replicas, and they are not paused: beside the \
                 MachineSets that they are made from, each creates its own machines; {remedy}"
            ));
        }
        notes.extend(self.clusters.iter().cloned());
        if let (labels @ 1.., first) = &self.other_label {
            notes.push(format!(
                "{labels} of {objects} objects have another name in the label {} than the Infrastructure, for example {first}",
                label::CLUSTER
            ));
        }
        if let (machines @ 1.., first) = &self.other_platform {
            notes.push(format!(
                "{machines} of {objects} objects are of another platform than the cluster, for example {first}"
            ));
        }
        if !self.missing.is_empty() {
            let kinds: Vec<&str> = self.missing.iter().copied().collect();
            notes.push(format!(
                "these objects of the cluster were not given: {}; pass them with --with",
                kinds.join(", ")
            ));
        }
        notes
    }
}

/// Counts an object, and keeps the text about the first one.
fn count((number, first): &mut (usize, String), text: impl FnOnce() -> String) {
    if *number == 0 {
        *first = text();
    }
    *number += 1;
}

/// Whether an object is one of Cluster API of this kind.
fn is_of_cluster_api(object: &Value, kind: &str) -> bool {
    conversion::api_of(object) == Some(Api::ClusterApi) && object.get("kind").and_then(Value::as_str) == Some(kind)
}

/// Whether an object is a Machine of Cluster API with an instance.
fn has_instance(object: &Value) -> bool {
    is_of_cluster_api(object, cluster_x_k8s_io::machine::KIND) && object.pointer("/spec/providerID").is_some()
}

/// Whether an object is a MachineSet of Cluster API that has machines. The default is one.
fn has_replicas(object: &Value) -> bool {
    let replicas = object.pointer("/spec/replicas").and_then(Value::as_i64);
    is_of_cluster_api(object, cluster_x_k8s_io::machine_set::KIND) && replicas != Some(0)
}

/// Whether an object is one of Cluster API with taints, or with taints in its template.
fn has_taints(object: &Value) -> bool {
    let taints = |path: &str| object.pointer(path).and_then(Value::as_array);
    let any = ["/spec/taints", "/spec/template/spec/taints"]
        .into_iter()
        .find_map(taints);
    conversion::api_of(object) == Some(Api::ClusterApi) && any.is_some_and(|taints| !taints.is_empty())
}
