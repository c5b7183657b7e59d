//! What the dashboard and `capstan status -o html` show: the JSON outputs of `capstan plan` and
//! `capstan status`, read into one page, with the objects of both APIs and the events.
//!
//! Nothing here decides, and nothing here writes to a cluster.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use anyhow::Context as _;
use capstan_core::admission::Snapshot;
use capstan_core::api::config_openshift_io::cluster_operator::{ClusterOperator, ETCD};
use capstan_core::api::core_v1::node;
use capstan_core::api::machine_openshift_io::control_plane::{self as scaled, ControlPlane};
use capstan_core::api::machine_openshift_io::control_plane_machine_set;
use capstan_core::cpms::preview::preview;
use capstan_core::cpms::reconcile_cache::ReconcileCache;
use capstan_core::cpms::report::{inactive_report, report};
use capstan_core::cpms::spec::SetState;
use capstan_core::kcp::observed::{ETCD_MEMBERS, is_control_plane};
use capstan_core::pool::observed::is_pool;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::documents::{self, Document};
use super::machine_pool::{self, Machinepools};
use super::observe::ObservedCluster;
use super::plan::{Given, require_nodes, separate_unparsable};
use super::status::json::as_json;
use super::{control_plane, kubeadm_control_plane};
use crate::controllers::{Assessment, Reading, assess};
use crate::dashboard::{Condition, Content, Report};
use crate::runtime::View;

mod events;
mod live;
mod mirrored;
mod outage;

pub(super) use live::Live;
use mirrored::Pairs;

/// The page of the objects in files.
///
/// # Errors
/// There is no control plane and no object of both APIs, or no control plane can be read.
pub(super) fn of_documents(
    documents: &[Document],
    cluster: &ObservedCluster,
    machinepools: Machinepools,
    now: Timestamp,
) -> anyhow::Result<Content> {
    let is = |kind: &'static str| move |document: &Document| document.key().0 == kind;
    let mut page = Page::default();
    page.content.mirrored = Pairs::of_documents(documents, &cluster.scope().options().authority).shown();
    page.content.events = events::of_objects(documents.iter().map(|document| &document.object));
    let has_other = documents
        .iter()
        .any(|document| is(scaled::KIND)(document) || is_control_plane(&document.object) || is_pool(&document.object));
    let has_set = documents.iter().any(is(control_plane_machine_set::KIND));
    let has_scaled = documents.iter().any(is(scaled::KIND));
    if has_set || has_scaled {
        require_nodes(documents)?;
    }
    if has_set || !(has_other || page.has_content()) {
        page.add(set_of_documents(documents.to_vec(), cluster, now));
    }
    if has_scaled {
        let snapshot = documents::snapshot(documents);
        let voters = control_plane::listed_voters(documents);
        page.add(snapshot.and_then(|snapshot| scaled_control_plane(&snapshot, voters, cluster)));
    }
    for report in kubeadm_control_planes(documents, now) {
        page.add(report);
    }
    for report in machine_pools(documents, machinepools, now) {
        page.add(report);
    }
    page.finish()
}

/// The page while it is made. A part that cannot be shown becomes a note.
#[derive(Default)]
struct Page {
    content: Content,
    failure: Option<anyhow::Error>,
}

impl Page {
    fn add(&mut self, report: anyhow::Result<Report>) {
        match report {
            Ok(report) => self.content.reports.push(report),
            Err(error) => {
                self.content.notes.push(format!("{error:#}"));
                self.failure.get_or_insert(error);
            }
        }
    }

    fn has_content(&self) -> bool {
        !(self.content.reports.is_empty() && self.content.mirrored.is_empty())
    }

    /// The page, or why no control plane can be shown.
    fn finish(mut self) -> anyhow::Result<Content> {
        self.content.name_owners();
        match self.failure {
            Some(error) if self.content.reports.is_empty() => Err(error),
            _ => Ok(self.content),
        }
    }
}

/// The report of the set of a cluster.
///
/// # Errors
/// There is no set.
fn of_view(cluster: &ObservedCluster, view: &View, now: Timestamp) -> anyhow::Result<Report> {
    of_assessment(&cluster.assess(view, now)?, now)
}

/// The report of the ControlPlaneMachineSet in files.
fn set_of_documents(documents: Vec<Document>, cluster: &ObservedCluster, now: Timestamp) -> anyhow::Result<Report> {
    let (readable, unparsable) = separate_unparsable(documents)?;
    let snapshot = documents::snapshot(&readable)?;
    let given = Given::of(&snapshot, unparsable, cluster.scope())?;
    let assessment = assess(
        given.set,
        given.observed,
        given.feature_gate.as_deref(),
        &cluster.scope().options(),
        cluster.settings(),
        now,
        &mut ReconcileCache::default(),
    );
    let mut report = of_assessment(&assessment, now)?;
    let operators = snapshot.cluster_operators.as_ref();
    report.etcd_operator = etcd_operator(operators.and_then(|operators| operators.get(ETCD)));
    Ok(report)
}

/// What the operator of etcd reports.
fn etcd_operator(operator: Option<&Arc<ClusterOperator>>) -> Vec<Condition> {
    let reported = operator.and_then(|operator| serde_json::to_value(&**operator).ok());
    let conditions = reported.and_then(|reported| reported.pointer("/status/conditions").cloned());
    conditions
        .and_then(|conditions| serde_json::from_value(conditions).ok())
        .unwrap_or_default()
}

/// The report of a ControlPlane, with the etcd members that vote, if their list is known.
fn scaled_control_plane(
    snapshot: &Snapshot,
    voters: Option<BTreeSet<IpAddr>>,
    cluster: &ObservedCluster,
) -> anyhow::Result<Report> {
    let plan =
        control_plane::plan(snapshot, voters, &cluster.scope().options()).context("planning the ControlPlane")?;
    let mut report = Report::of(plan, None)?;
    let of_name = |object: &&Arc<ControlPlane>| object.metadata.name() == report.name;
    let object = snapshot.control_planes.iter().flatten().find(of_name);
    if let Some(replicas) = object.and_then(|object| usize::try_from(object.spec.replicas?).ok()) {
        report.count_towards(replicas);
    }
    let operators = snapshot.cluster_operators.as_ref();
    report.etcd_operator = etcd_operator(operators.and_then(|operators| operators.get(ETCD)));
    Ok(report)
}

/// The reports of all KubeadmControlPlanes. Each is planned with the objects of its namespace.
fn kubeadm_control_planes(documents: &[Document], now: Timestamp) -> Vec<anyhow::Result<Report>> {
    let is_kubeadm = |document: &&Document| is_control_plane(&document.object);
    let all: Vec<&Document> = documents.iter().filter(is_kubeadm).collect();
    let is_etcd = |document: &Document| document.key().0 == ETCD_MEMBERS;
    let report = |own: &Document| {
        let is_around = |other: &&Document| {
            let is_other = is_control_plane(&other.object) && other.key() != own.key();
            // An EtcdMembers does not name its control plane.
            !is_other && (all.len() == 1 || !is_etcd(other))
        };
        let around: Vec<Document> = documents.iter().filter(is_around).cloned().collect();
        let (plan, status) = kubeadm_control_plane::reports(&around, now)?;
        let mut report = Report::of(plan, Some(status))?;
        if report.etcd.is_none() {
            let unknown = "The etcd members are not known: the conditions of the Machines alone decide about etcd.";
            report.notes.push(unknown.to_owned());
        }
        Ok(report)
    };
    all.iter().map(|own| report(own)).collect()
}

/// The reports of all MachinePools.
fn machine_pools(documents: &[Document], machinepools: Machinepools, now: Timestamp) -> Vec<anyhow::Result<Report>> {
    let pools = documents.iter().filter(|document| is_pool(&document.object));
    let has_nodes = documents.iter().any(|document| document.key().0 == node::KIND);
    let report = |own: &Document| {
        let is_around = |other: &&Document| !is_pool(&other.object) || other.key() == own.key();
        let around: Vec<Document> = documents.iter().filter(is_around).cloned().collect();
        let mut report = Report::of(machine_pool::plan(&around, machinepools, now)?, None)?;
        let replicas = own.object.pointer("/spec/replicas").and_then(Value::as_u64);
        if let Some(replicas) = replicas.and_then(|replicas| usize::try_from(replicas).ok()) {
            report.count_towards(replicas);
        }
        if !has_nodes {
            let unknown = "The Nodes of this cluster are not known here, so no machine counts as ready and no version \
                           is compared.";
            report.notes.push(unknown.to_owned());
            report.without_nodes();
        }
        Ok(report)
    };
    pools.map(report).collect()
}

fn of_assessment(assessment: &Assessment, now: Timestamp) -> anyhow::Result<Report> {
    let plan = match &assessment.reading {
        Reading::Valid(read) => {
            let (spec, state) = &**read;
            if spec.state == SetState::Inactive {
                inactive_report(spec, state, &assessment.plan, now)
            } else {
                report(spec, state, &assessment.plan, &preview(spec, state, now), now)
            }
        }
        Reading::Invalid(_) | Reading::Leaving => json!({"set": assessment.set.metadata.name()}),
    };
    Report::of(plan, Some(as_json(assessment, now)))
}
