//! `capstan generate`: prints a ControlPlaneMachineSet or a ControlPlane for existing machines.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use capstan_core::admission::Snapshot;
use capstan_core::api::machine_openshift_io::control_plane_machine_set::{ControlPlaneMachineSet, NAME};
use capstan_core::api::machine_openshift_io::machine::Machine;
use capstan_core::api::machine_openshift_io::machine_set::{self, MachineSet};
use capstan_core::control_plane::generate::of_set;
use capstan_core::cpms::domains::Platform;
use capstan_core::cpms::generate::{Existing, generate, generate_for_control_plane};
use capstan_core::cpms::selector::is_control_plane;
use serde::Deserialize as _;
use serde_json::Value;

use super::cluster::{Cluster, Scope};
use super::documents::{self, Document};
use super::gather;

/// Print the ControlPlaneMachineSet or the ControlPlane that describes existing machines.
///
/// A set is Inactive: review it, correct it, and then set spec.state to Active. A
/// ControlPlane takes the template of the existing set, so that no machine is
/// replaced; delete the set before you create it. Nothing is written to a cluster.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Machines, with the Infrastructure and MachineSets if there are any: a file or a
    /// folder; may be repeated. Without this flag, they are read from a cluster.
    #[arg(short, long = "filename", value_name = "FILE|DIR", conflicts_with_all = ["kubeconfig", "context"])]
    files: Vec<PathBuf>,
    /// What to print.
    #[arg(long, value_enum, default_value = "ControlPlaneMachineSet", value_name = "KIND")]
    kind: Kind,
    #[command(flatten)]
    cluster: Cluster,
    #[command(flatten)]
    scope: Scope,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Kind {
    #[value(name = "ControlPlaneMachineSet")]
    ControlPlaneMachineSet,
    #[value(name = "ControlPlane")]
    ControlPlane,
}

/// Prints the object as YAML.
///
/// # Errors
/// The input cannot be read, or no set can describe the machines.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let documents = if args.files.is_empty() {
        gather::objects(&args.cluster, &args.scope.namespace)?
    } else {
        documents::read_distinct(&args.files)?
    };
    let mut snapshot = documents::snapshot(&documents)?;
    one_namespace(&mut snapshot, &args.scope.namespace)?;
    let of_machine_api = |document: &&Document| {
        document.text("/kind") == machine_set::KIND && document.text("/apiVersion") == machine_set::API_VERSION
    };
    let machine_sets: Vec<Arc<MachineSet>> = documents
        .iter()
        .filter(of_machine_api)
        .map(|document| {
            let read = MachineSet::deserialize(&document.object).map(Arc::new);
            read.with_context(|| document.place())
        })
        .collect::<anyhow::Result<_>>()?;
    let existing = Existing {
        machines: snapshot.machines.as_deref().unwrap_or_default(),
        machine_sets: &machine_sets,
        nodes: snapshot.nodes.as_ref(),
        infrastructure: snapshot.infrastructure.as_deref(),
    };
    let namespace = existing
        .machines
        .iter()
        .find_map(|machine| machine.metadata.namespace.clone());
    let is_here = |set: &&Arc<ControlPlaneMachineSet>| {
        let own = set.metadata.namespace.as_deref();
        let is_near = own.is_none_or(|own| namespace.as_deref().is_none_or(|namespace| namespace == own));
        is_near && set.metadata.name() == NAME
    };
    let known = snapshot.control_plane_machine_sets.iter().flatten().find(is_here);
    let set = described(args.kind, &existing, known)?;
    let by_name = existing.machines.iter().any(|machine| {
        let value = machine.spec.provider_spec.value.as_ref();
        value.and_then(Platform::of).is_some_and(Platform::by_name)
    });
    if by_name && existing.infrastructure.is_none() {
        let note = "note: the Infrastructure cluster must be given for failure domains: on this platform, only it \
            defines them\n";
        std::io::stderr()
            .write_all(note.as_bytes())
            .context("writing the note")?;
    }
    let text = match args.kind {
        Kind::ControlPlaneMachineSet => serde_saphyr::to_string(&set),
        Kind::ControlPlane => {
            let object = of_set(&set, existing.machines).context(
                "a ControlPlane has at most 7 machines, and its set must have a template of Machines: remove the other \
                 Machines from the input, or correct the template",
            )?;
            note_deletions(existing.machines);
            let replicas = object.pointer("/spec/replicas").and_then(Value::as_i64);
            let of_set = known.and_then(|known| known.spec.replicas).map(i64::from);
            if let (Some(replicas), Some(of_set)) = (replicas, of_set)
                && replicas != of_set
            {
                documents::note(&format!(
                    "the set has {of_set} replicas, and the ControlPlane has {replicas}, for the Machines that exist; if a \
                     rollout of the set is in progress, wait until it is complete, and generate the ControlPlane again"
                ));
            }
            serde_saphyr::to_string(&object)
        }
    };
    let text = text.context("writing the object as YAML")?;
    std::io::stdout()
        .write_all(text.as_bytes())
        .context("writing the set")?;
    Ok(ExitCode::SUCCESS)
}

/// Notes that the number of machines that exist need not be the wanted one.
fn note_deletions(machines: &[Arc<Machine>]) {
    let leaves = |machine: &&Arc<Machine>| is_control_plane(&machine.metadata.labels) && machine.metadata.is_deleting();
    let names: Vec<&str> = machines
        .iter()
        .filter(leaves)
        .map(|machine| machine.metadata.name())
        .collect();
    if !names.is_empty() {
        documents::note(&format!(
            "{} are being deleted: compare spec.replicas with the wanted number of machines",
            names.join(", ")
        ));
    }
}

/// The set that is printed, or whose template a ControlPlane gets. `known` is the set that exists.
fn described(
    kind: Kind,
    existing: &Existing<'_>,
    known: Option<&Arc<ControlPlaneMachineSet>>,
) -> anyhow::Result<ControlPlaneMachineSet> {
    match (kind, known) {
        (Kind::ControlPlaneMachineSet, _) => generate(existing).context("generating a set for these machines"),
        (Kind::ControlPlane, Some(known)) => {
            let mut machines = existing.machines.iter();
            let namespace = machines.find_map(|machine| machine.metadata.namespace.clone());
            let mut set = ControlPlaneMachineSet::clone(known);
            set.metadata.namespace = set.metadata.namespace.or(namespace);
            Ok(set)
        }
        (Kind::ControlPlane, None) => {
            generate_for_control_plane(existing).context("generating a ControlPlane for these machines")
        }
    }
}

/// Leaves out the Machines of other namespaces, if files contain those of several. One object
/// describes the machines of one namespace. A Machine without a namespace is in `namespace`.
fn one_namespace(snapshot: &mut Snapshot, namespace: &str) -> anyhow::Result<()> {
    for machine in snapshot.machines.iter_mut().flatten() {
        if machine.metadata.namespace.is_none() {
            Arc::make_mut(machine).metadata.namespace = Some(namespace.to_owned());
        }
    }
    let machines = snapshot.machines.iter().flatten();
    let namespaces: BTreeSet<&str> = machines
        .filter_map(|machine| machine.metadata.namespace.as_deref())
        .collect();
    let list = Vec::from_iter(namespaces.iter().copied()).join(", ");
    if namespaces.len() < 2 {
        if !namespaces.is_empty() && !namespaces.contains(namespace) {
            documents::note(&format!(
                "all Machines are in the namespace {list}, and --namespace is {namespace}; the object is for {list}"
            ));
        }
        return Ok(());
    }
    if !namespaces.contains(namespace) {
        bail!("the Machines are in the namespaces {list}: --namespace must name one of them, not {namespace}");
    }
    documents::note(&format!(
        "the Machines are in the namespaces {list}; only those in {namespace} are described"
    ));
    snapshot.keep_machines_of(namespace);
    Ok(())
}
