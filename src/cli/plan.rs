//! `capstan plan`: what the controller does next, and the whole rollout, before it happens.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use capstan_core::admission::Snapshot;
use capstan_core::api::config_openshift_io::cluster_operator::ETCD;
use capstan_core::api::machine_openshift_io::control_plane_machine_set::NAME;
use capstan_core::cpms::plan::plan;
use capstan_core::cpms::preview::preview;
use capstan_core::cpms::report::{inactive_report, invalid_report, leaving_report, report};
use capstan_core::cpms::spec::{ParseContext, SetState, parse};
use capstan_core::cpms::state::{Observed, Settings, State};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::check::pretty;
use super::cluster::{Cluster, Scope};
use super::{documents, gather};

mod text;

/// Show what the controller does next, and the rollout that lies ahead.
///
/// From files (a set, Machines, Nodes, Infrastructure, ClusterOperators) or from a cluster. Nothing is written.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  capstan plan
  capstan plan -f set.yaml -f machines/ -o json
  kubectl get cpms,machines -n openshift-machine-api -o yaml | capstan plan -f -")]
pub struct Args {
    /// Objects to plan over: a file or a folder; may be repeated. Without it, a cluster is asked.
    #[arg(short, long = "filename", value_name = "FILE|DIR", conflicts_with_all = ["kubeconfig", "context"])]
    files: Vec<PathBuf>,
    /// The time of the plan, as in 2026-01-31T12:00:00Z; by default, now.
    #[arg(long, value_name = "TIME")]
    now: Option<Timestamp>,
    /// How long the node of a replacement must have been ready.
    #[arg(long, default_value = "10s", value_name = "TIME")]
    min_ready: SignedDuration,
    /// How the plan is printed.
    #[arg(short, long, value_enum, default_value = "text")]
    output: Output,
    #[command(flatten)]
    cluster: Cluster,
    #[command(flatten)]
    scope: Scope,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    Text,
    Json,
}

/// Plans and prints.
///
/// # Errors
/// When the input cannot be read or the cluster cannot be reached.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let objects = if args.files.is_empty() {
        gather::objects(&args.cluster, &args.scope.namespace)?
    } else {
        documents::read_all(&args.files)?
            .into_iter()
            .map(|document| document.object)
            .collect()
    };
    let snapshot = Snapshot::of_files(&objects)?;
    let now = args.now.unwrap_or_else(Timestamp::now);
    let report = plan_over(&snapshot, args, now)?;
    let text = match args.output {
        Output::Json => pretty(&report)?,
        Output::Text => text::page(&report),
    };
    std::io::stdout()
        .write_all(text.as_bytes())
        .context("writing the plan")?;
    Ok(ExitCode::SUCCESS)
}

fn plan_over(snapshot: &Snapshot, args: &Args, now: Timestamp) -> anyhow::Result<Value> {
    let sets = snapshot.control_plane_machine_sets.as_deref().unwrap_or_default();
    let Some(set) = sets.iter().find(|set| set.metadata.name() == NAME).or(sets.first()) else {
        bail!("there is no ControlPlaneMachineSet: `capstan generate` makes one from the machines that exist");
    };
    if snapshot.nodes.is_none() {
        let note = "note: no Nodes are given, so every machine counts as not ready\n";
        std::io::stderr().write_all(note.as_bytes()).context("writing a note")?;
    }
    let observed = Observed {
        machines: snapshot.machines.clone().unwrap_or_default(),
        nodes: snapshot.nodes.clone().unwrap_or_default().into_values().collect(),
        infrastructure: snapshot.infrastructure.clone(),
        etcd: snapshot
            .cluster_operators
            .as_ref()
            .and_then(|operators| operators.get(ETCD))
            .cloned(),
        unparsable: Vec::new(),
    };
    if set.metadata.is_deleting() {
        return Ok(leaving_report(set, &observed.machines));
    }
    let context = ParseContext {
        infrastructure: observed.infrastructure.as_deref(),
        gates: args.scope.options().gates(snapshot.feature_gate.as_deref()),
        ignore_gated_fields: true,
    };
    Ok(match parse(set, &context) {
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
        Err(violations) => invalid_report(set, &violations),
    })
}
