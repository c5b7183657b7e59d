//! `capstan plan`: shows the controller's next step and the whole rollout in advance.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use capstan_core::admission::Snapshot;
use capstan_core::api::config_openshift_io::cluster_operator::ETCD;
use capstan_core::api::config_openshift_io::feature_gate::FeatureGate;
use capstan_core::api::machine_openshift_io;
use capstan_core::api::machine_openshift_io::control_plane as scaled;
use capstan_core::api::machine_openshift_io::control_plane_machine_set::{self, ControlPlaneMachineSet, NAME};
use capstan_core::api::machine_openshift_io::machine;
use capstan_core::cpms::observed::{Observed, Settings, Unparsable};
use capstan_core::cpms::plan::plan;
use capstan_core::cpms::preview::preview;
use capstan_core::cpms::report::{inactive_report, invalid_report, leaving_report, report, unreadable_report};
use capstan_core::cpms::spec::{ParseContext, SetState, parse};
use capstan_core::cpms::state::State;
use capstan_core::kcp::observed::is_control_plane;
use capstan_core::pool::observed::is_pool;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::cluster::{Cluster, Scope};
use super::documents::{self, Document};
use super::output::{Output, plain, pretty, yaml};
use super::{control_plane, gather, kubeadm_control_plane, machine_pool, managed_cluster, validity};

mod text;

/// Show the next step of the controller and the rest of the rollout.
///
/// The input is from files (a set, Machines, Nodes, Infrastructure,
/// ClusterOperators) or from a cluster. Nothing is written. A ControlPlane is planned
/// in the place of a set that is not Active. Its files may contain the ConfigMap
/// etcd-endpoints, which lists the etcd members that vote. Files may instead contain a
/// KubeadmControlPlane with its Cluster, Machines, KubeadmConfigs, infrastructure
/// machines, Nodes, and EtcdMembers, or a MachinePool with its infrastructure,
/// Machines, and Nodes.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  capstan plan
  capstan plan -f set.yaml -f machines/ -o json
  kubectl get cpms,machines.machine.openshift.io,nodes -n openshift-machine-api -o yaml \\
    | capstan plan -f -
  capstan plan -f control-plane.yaml -f machines/ -f etcd.yaml")]
pub struct Args {
    /// Objects to plan with: a file or a folder; may be repeated. Without this flag,
    /// they are read from a cluster.
    #[arg(short, long = "filename", value_name = "FILE|DIR", conflicts_with_all = ["kubeconfig", "context"])]
    files: Vec<PathBuf>,
    /// Plan this KubeadmControlPlane of a cluster. Its objects are read from the
    /// management cluster, and the Nodes from the managed cluster with its kubeconfig
    /// Secret.
    #[arg(long, value_name = "NAMESPACE/NAME", conflicts_with = "files")]
    kubeadm_control_plane: Option<managed_cluster::Named>,
    /// Plan this MachinePool of a management cluster.
    #[arg(long, value_name = "NAMESPACE/NAME", conflicts_with_all = ["files", "kubeadm_control_plane"])]
    machine_pool: Option<managed_cluster::Named>,
    /// The time of the plan, such as 2026-01-31T12:00:00Z; the default is now.
    #[arg(long, value_parser = super::serve::moment, value_name = "TIME")]
    now: Option<Timestamp>,
    /// How long the node of a replacement must have been ready.
    #[arg(long, default_value = "10s", value_parser = super::serve::signed_duration, value_name = "TIME")]
    min_ready: SignedDuration,
    /// Whether Capstan creates the Machines of a MachinePool, or the core manager of
    /// Cluster API does.
    #[arg(long, value_enum, value_name = "MODE", default_value = "extend")]
    machinepools: machine_pool::Machinepools,
    /// The output format.
    #[arg(short, long, value_enum, default_value = "text")]
    output: Output,
    #[command(flatten)]
    cluster: Cluster,
    #[command(flatten)]
    scope: Scope,
}

impl Args {
    /// Notes what admission refuses in files. A cluster has accepted its objects.
    fn note_refused(&self, documents: &[Document], is_judged: fn(&Value) -> bool) -> anyhow::Result<()> {
        match self.files.is_empty() {
            true => Ok(()),
            false => validity::note_refused(documents, is_judged, self.scope.options()),
        }
    }

    /// Notes that files contain no Machine in the namespace of the set. The plan of a set without
    /// machines advises to delete the set.
    fn note_no_machines(&self, documents: &[Document]) {
        let is_set = |document: &&Document| document.key().0 == control_plane_machine_set::KIND;
        let is_elsewhere = |set: &&Document| !["", self.scope.namespace.as_str()].contains(&set.key().1);
        let planned = documents.iter().filter(is_set).min_by_key(is_elsewhere);
        let of_set = planned.map_or("", |set| set.key().1);
        let namespace = match of_set {
            "" => self.scope.namespace.as_str(),
            namespace => namespace,
        };
        let is_kind = |document: &Document, kind| document.identity().starts_with(&[machine_openshift_io::GROUP, kind]);
        let is_here = |document: &Document| ["", namespace].contains(&document.key().1);
        let is_told = |document: &Document| {
            is_kind(document, "MachineList") || (is_kind(document, machine::KIND) && is_here(document))
        };
        if !self.files.is_empty() && !documents.iter().any(is_told) {
            documents::note(&format!(
                "the files contain no Machine in the namespace {namespace}, so the plan is that of a set without machines; \
                 an empty MachineList tells that there are none"
            ));
        }
    }
}

/// Prints the plan.
///
/// # Errors
/// The input cannot be read, or the cluster cannot be reached.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let documents = if let Some(named) = &args.kubeadm_control_plane {
        managed_cluster::objects(&args.cluster, named)?
    } else if let Some(named) = &args.machine_pool {
        machine_pool::objects(&args.cluster, named)?
    } else if args.files.is_empty() {
        gather::objects(&args.cluster, &args.scope.namespace)?
    } else {
        documents::read_surroundings(&args.files)?
    };
    let now = args.now.unwrap_or_else(Timestamp::now);
    let report = if is_about_scaling(&documents, &args.scope.namespace) {
        require_nodes(&documents)?;
        let voters = control_plane::listed_voters(&documents);
        control_plane::plan(&documents::snapshot(&documents)?, voters, &args.scope.options())?
    } else if is_about_control_plane(&documents) {
        note_unplanned(&documents, is_pool, "KubeadmControlPlane");
        args.note_refused(&documents, is_control_plane)?;
        kubeadm_control_plane::plan(&documents, now)?
    } else if is_about_pool(&documents) {
        args.note_refused(&documents, is_pool)?;
        machine_pool::plan(&documents, args.machinepools, now)?
    } else {
        note_control_plane(&documents, &args.scope.namespace);
        args.note_no_machines(&documents);
        require_nodes(&documents)?;
        plan_set(documents, args, now)?
    };
    let text = match args.output {
        Output::Json => pretty(&report)?,
        Output::Yaml => yaml(&report)?,
        Output::Text => plain(&text::page(&report)).into_owned(),
    };
    std::io::stdout()
        .write_all(text.as_bytes())
        .context("writing the plan")?;
    Ok(ExitCode::SUCCESS)
}

/// Whether the objects are those of a ControlPlane. An Inactive ControlPlaneMachineSet beside it
/// does nothing.
fn is_about_scaling(documents: &[Document], namespace: &str) -> bool {
    let home = |document: &Document| match document.key().1 {
        "" => namespace.to_owned(),
        own => own.to_owned(),
    };
    let of_kind = |kind: &'static str| documents.iter().filter(move |document| document.key().0 == kind);
    let is_active = |set: &&Document| set.text("/spec/state") == "Active";
    let sets = of_kind(control_plane_machine_set::KIND);
    let managed: BTreeSet<String> = sets.clone().filter(is_active).map(home).collect();
    let has_set = sets.map(home).any(|home| home == namespace);
    // The controllers manage one namespace, and a set in it is planned rather than a ControlPlane
    // elsewhere.
    let is_planned = |home: String| !managed.contains(&home) && (home == namespace || !has_set);
    of_kind(scaled::KIND).map(home).any(is_planned)
}

/// Without any Node, each machine that names one would look as if its node had been deleted.
pub(super) fn require_nodes(documents: &[Document]) -> anyhow::Result<()> {
    let node = |document: &Document| {
        let is_machine = document
            .identity()
            .starts_with(&[machine_openshift_io::GROUP, machine::KIND]);
        let name = document.text("/status/nodeRef/name");
        (is_machine && !name.is_empty()).then(|| name.to_owned())
    };
    let has_nodes = documents
        .iter()
        .any(|document| ["Node", "NodeList"].contains(&document.key().0));
    match documents.iter().find_map(|document| Some((document, node(document)?))) {
        Some((machine, node)) if !has_nodes && machine.line > 0 => bail!(
            "the Nodes must be given too: the Machine {} has the node {node}, and no Node is in the input. `kubectl get \
             nodes -o yaml` prints them; an empty NodeList tells that there are none",
            machine.key().2
        ),
        _ => Ok(()),
    }
}

/// Notes that a ControlPlane beside a set that is planned is not planned.
fn note_control_plane(documents: &[Document], namespace: &str) {
    let is_other = |object: &Value| is_control_plane(object) || is_pool(object);
    note_unplanned(documents, is_other, control_plane_machine_set::KIND);
    let is_scaled = |document: &&Document| document.key().0 == scaled::KIND;
    if let Some(document) = documents.iter().find(is_scaled) {
        let (_, own, name) = document.key();
        let why = if own.is_empty() || own == namespace {
            "a ControlPlaneMachineSet is Active and manages the machines; delete the set first, its machines stay"
                .to_owned()
        } else {
            format!("it is in the namespace {own}, and a ControlPlaneMachineSet is in {namespace}")
        };
        documents::note(&format!(
            "{}: the ControlPlane {name} is not planned, because {why}",
            document.place()
        ));
    }
}

/// Notes the objects that are not planned, because one of this kind is.
fn note_unplanned(documents: &[Document], is_other: fn(&Value) -> bool, planned: &str) {
    for document in documents.iter().filter(|document| is_other(&document.object)) {
        let (kind, _, name) = document.key();
        documents::note(&format!(
            "{}: the {kind} {name} is not planned, because the files contain a {planned}; plan it alone",
            document.place()
        ));
    }
}

/// Whether the objects are those of a KubeadmControlPlane. A ControlPlaneMachineSet is planned
/// first.
pub(super) fn is_about_control_plane(documents: &[Document]) -> bool {
    let is_set = |document: &Document| document.key().0 == control_plane_machine_set::KIND;
    !documents.iter().any(is_set) && documents.iter().any(|document| is_control_plane(&document.object))
}

/// Whether the objects are those of a MachinePool. A control plane is planned first.
fn is_about_pool(documents: &[Document]) -> bool {
    let is_set = |document: &Document| document.key().0 == control_plane_machine_set::KIND;
    !documents.iter().any(is_set) && machine_pool::is_about_pool(documents)
}

fn plan_set(documents: Vec<Document>, args: &Args, now: Timestamp) -> anyhow::Result<Value> {
    let (readable, unparsable) = separate_unparsable(documents)?;
    Ok(
        match unparsable
            .iter()
            .find(|object| object.kind == control_plane_machine_set::KIND)
        {
            Some(set) => unreadable_report(set),
            None => plan_over(&documents::snapshot(&readable)?, unparsable, args, now)?,
        },
    )
}

/// Separates the sets and Machines that cannot be parsed. The controller reports those in its plan,
/// so they do not prevent one.
pub(super) fn separate_unparsable(documents: Vec<Document>) -> anyhow::Result<(Vec<Document>, Vec<Unparsable>)> {
    const PLANNED: [&str; 2] = [machine::KIND, control_plane_machine_set::KIND];
    let (mut readable, mut unparsable) = (Vec::new(), Vec::new());
    for document in documents {
        match Snapshot::of_files(std::slice::from_ref(&document.object)) {
            Ok(_) => readable.push(document),
            Err(error) if PLANNED.contains(&error.kind.as_str()) => unparsable.push(Unparsable {
                kind: error.kind,
                name: error.name,
                message: error.reason,
            }),
            Err(error) => return Err(error).with_context(|| document.place()),
        }
    }
    Ok((readable, unparsable))
}

/// A set from files, and the objects around it.
pub(super) struct Given {
    pub(super) set: Arc<ControlPlaneMachineSet>,
    pub(super) observed: Observed,
    pub(super) feature_gate: Option<Arc<FeatureGate>>,
}

impl Given {
    /// Finds the set and its objects.
    ///
    /// # Errors
    /// There is no set.
    pub(super) fn of(snapshot: &Snapshot, unparsable: Vec<Unparsable>, scope: &Scope) -> anyhow::Result<Self> {
        let sets = snapshot.control_plane_machine_sets.as_deref().unwrap_or_default();
        let rank = |set: &&Arc<ControlPlaneMachineSet>| documents::rank(&set.metadata, NAME, &scope.namespace);
        let Some(set) = sets.iter().min_by_key(rank) else {
            bail!(
                "there must be a ControlPlaneMachineSet, a KubeadmControlPlane, or a MachinePool; `capstan generate` \
                 prints a set for the existing machines"
            );
        };
        let namespace = set.metadata.namespace.as_deref().unwrap_or(&scope.namespace);
        if sets.len() > 1 {
            documents::note(&format!(
                "there are {} ControlPlaneMachineSets; only {} in {namespace} is planned",
                sets.len(),
                set.metadata.name()
            ));
        }
        let observed = Observed {
            machines: control_plane::machines_in(namespace, snapshot),
            nodes: snapshot.nodes.clone().unwrap_or_default().into_values().collect(),
            infrastructure: snapshot.infrastructure.clone(),
            etcd: snapshot
                .cluster_operators
                .as_ref()
                .and_then(|operators| operators.get(ETCD))
                .cloned(),
            unparsable,
            ..Observed::default()
        };
        Ok(Self {
            set: Arc::clone(set),
            observed,
            feature_gate: snapshot.feature_gate.clone(),
        })
    }
}

fn plan_over(snapshot: &Snapshot, unparsable: Vec<Unparsable>, args: &Args, now: Timestamp) -> anyhow::Result<Value> {
    let Given {
        set,
        observed,
        feature_gate,
    } = Given::of(snapshot, unparsable, &args.scope)?;
    let namespace = set.metadata.namespace.as_deref().unwrap_or_default();
    if !namespace.is_empty() && namespace != args.scope.namespace {
        documents::note(&format!(
            "the set is in the namespace {namespace}, and --namespace is {}; the plan is that of a controller of \
             {namespace}",
            args.scope.namespace
        ));
    }
    if snapshot.nodes.is_none() {
        let note = "note: no Nodes are given, so no machine counts as ready\n";
        std::io::stderr()
            .write_all(note.as_bytes())
            .context("writing the note")?;
    }
    if set.metadata.is_deleting() {
        return Ok(leaving_report(&set, &observed));
    }
    let context = ParseContext {
        infrastructure: observed.infrastructure.as_deref(),
        gates: args.scope.options().gates(feature_gate.as_deref()),
        ignore_gated_fields: true,
    };
    Ok(match parse(&set, &context) {
        Ok(spec) => {
            let settings = Settings {
                min_ready: args.min_ready,
            };
            let state = State::observe(&spec, observed, settings);
            let next = plan(&spec, &state, now);
            if spec.state == SetState::Inactive {
                inactive_report(&spec, &state, &next, now)
            } else {
                report(&spec, &state, &next, &preview(&spec, &state, now), now)
            }
        }
        Err(violations) => invalid_report(&set, &violations),
    })
}
