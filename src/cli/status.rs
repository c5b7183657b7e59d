//! `capstan status`: shows the control plane as a tree, the progress of its rollout, and the reason
//! why each machine waits.

use std::fmt::Write as _;
use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use capstan_core::cpms::machine_state::{MachineState, NodeState};
use capstan_core::cpms::plan::Plan;
use capstan_core::cpms::progress::progress;
use capstan_core::cpms::spec::{SetState, Spec};
use capstan_core::cpms::state::State;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::check::pretty;
use super::observe::{ObservedCluster, runtime};
use super::plan::is_about_control_plane;
use super::{documents, kubeadm_control_plane};
use crate::controllers::{Assessment, Reading};
use crate::runtime::View;

/// Show the state of the control plane and the progress of its rollout.
///
/// The output is a tree of indexes, machines, nodes and hooks, with the reason why
/// each machine waits. For a KubeadmControlPlane and its objects in files, the
/// output has also the conditions that the controller computes.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  capstan status --watch
  capstan status -o json | jq .progress
  capstan status -f control-plane.yaml -f machines/ -f etcd.yaml")]
pub struct Args {
    /// Objects of a KubeadmControlPlane: a file or a folder; may be repeated. Without
    /// this flag, the set of a cluster is shown.
    #[arg(short, long = "filename", value_name = "FILE|DIR", conflicts_with_all = ["watch", "kubeconfig", "context"])]
    files: Vec<PathBuf>,
    /// The time of the status of files; the default is now.
    #[arg(long, value_name = "TIME", requires = "files")]
    now: Option<Timestamp>,
    /// Continue, and show every change until Ctrl-C.
    #[arg(short, long)]
    watch: bool,
    /// The output format; JSON with --watch is one line for each change.
    #[arg(short, long, value_enum, default_value = "text")]
    output: Output,
    #[command(flatten)]
    cluster: ObservedCluster,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    Text,
    Json,
}

/// Prints the status.
///
/// # Errors
/// There is no set, or the cluster cannot be read.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if !args.files.is_empty() {
        return of_files(args);
    }
    runtime()?.block_on(async {
        if args.watch {
            watch(args).await
        } else {
            let view = args.cluster.view().await?;
            print(&show(args, &view)?)?;
            Ok(ExitCode::SUCCESS)
        }
    })
}

/// Prints the status of a KubeadmControlPlane from files.
fn of_files(args: &Args) -> anyhow::Result<ExitCode> {
    let documents = documents::read_all(&args.files)?;
    if !is_about_control_plane(&documents) {
        bail!("the files must contain a KubeadmControlPlane; `capstan plan -f` shows a ControlPlaneMachineSet");
    }
    let now = args.now.unwrap_or_else(Timestamp::now);
    let (report, text) = kubeadm_control_plane::state(&documents, now)?;
    print(&match args.output {
        Output::Text => text,
        Output::Json => pretty(&report)?,
    })?;
    Ok(ExitCode::SUCCESS)
}

async fn watch(args: &Args) -> anyhow::Result<ExitCode> {
    let (_caches, mut views) = args.cluster.watch().await?;
    let clears = args.output == Output::Text && std::io::stdout().is_terminal();
    let mut last = String::new();
    loop {
        let view = views.borrow_and_update().clone();
        // While no set exists, the output is that error.
        let text = show(args, &view).unwrap_or_else(|error| format!("{error:#}\n"));
        if text != last {
            print(&if clears {
                format!("\x1b[H\x1b[2J{text}")
            } else {
                format!("{text}\n")
            })?;
            last = text;
        }
        tokio::select! {
            changed = views.changed() => if changed.is_err() { return Ok(ExitCode::SUCCESS) },
            // Some waits end only because time passes.
            () = tokio::time::sleep(std::time::Duration::from_secs(1)) => {}
            _ = tokio::signal::ctrl_c() => return Ok(ExitCode::SUCCESS),
        }
    }
}

fn show(args: &Args, view: &View) -> anyhow::Result<String> {
    let now = Timestamp::now();
    let assessment = args.cluster.assess(view, now)?;
    match args.output {
        Output::Text => Ok(as_text(&assessment, now)),
        Output::Json if args.watch => Ok(as_json(&assessment, now).to_string()),
        Output::Json => pretty(&as_json(&assessment, now)),
    }
}

fn print(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .context("writing the status")
}

fn node(machine: &MachineState) -> String {
    match &machine.node {
        NodeState::None => "no node yet".to_owned(),
        NodeState::Missing { name } => format!("node {name} does not exist"),
        NodeState::NotReady { name, .. } => format!("node {name} not ready"),
        NodeState::Ready { name, .. } => format!("node {name} ready"),
    }
}

/// The reasons why this machine, or a step for it, waits.
fn waits<'a>(plan: &'a Plan, machine: &'a MachineState) -> impl Iterator<Item = &'a str> {
    let about = plan.waits.iter().filter(|wait| wait.machine() == Some(&machine.name));
    about.map(|wait| wait.message.as_str())
}

fn as_text(assessment: &Assessment, now: Timestamp) -> String {
    let name = assessment.set.metadata.name();
    let (spec, state) = match &assessment.reading {
        Reading::Valid(read) => (&read.0, &read.1),
        Reading::Leaving => return format!("ControlPlaneMachineSet {name} is being deleted; its machines are kept\n"),
        Reading::Invalid(violations) => {
            let head = format!("ControlPlaneMachineSet {name} is not valid; the controller does nothing\n");
            return violations
                .iter()
                .fold(head, |text, violation| format!("{text}  {violation}\n"));
        }
    };
    let plan = &assessment.plan;
    let tree = progress(spec, state, now);
    let (done, all) = (tree.done, tree.of);
    let active = if spec.state == SetState::Active {
        "Active"
    } else {
        "Inactive"
    };
    let bar = format!("{}{}", "█".repeat(done * 6), "░".repeat(all.saturating_sub(done) * 6));
    let mut text = format!(
        "ControlPlaneMachineSet {name}  {active}  {}  revision {}\n[{bar}] {done} of {all} up to date\n",
        spec.strategy.name(),
        state.revision
    );
    // Writing to a String does not fail.
    for index in &state.indexes {
        let last = state.indexes.last() == Some(index);
        let (branch, trunk) = if last { ("└─", "  ") } else { ("├─", "│ ") };
        let domain = state
            .placement
            .get(index)
            .map_or_else(String::new, |domain| format!("  {domain}"));
        let _ = writeln!(text, "{branch} index {index}{domain}");
        let machines: Vec<&MachineState> = state.of_index(*index).collect();
        if machines.is_empty() {
            let _ = writeln!(text, "{trunk} └─ no machine");
        }
        for (position, machine) in machines.iter().enumerate() {
            let end = position + 1 == machines.len();
            let (branch, below) = if end { ("└─", "   ") } else { ("├─", "│  ") };
            let age = if machine.is_current() { "up to date" } else { "outdated" };
            let phase = machine.phase.as_deref().unwrap_or("no phase");
            let deleting = if machine.is_deleting() { ", being deleted" } else { "" };
            let _ = writeln!(
                text,
                "{trunk} {branch} {}  {phase}{deleting}, {age}, {}",
                machine.name,
                node(machine)
            );
            for hook in machine.hooks.iter().filter(|_| machine.is_deleting()) {
                let _ = writeln!(text, "{trunk} {below} waits for hook {hook}");
            }
            for wait in waits(plan, machine) {
                let _ = writeln!(text, "{trunk} {below} waits: {wait}");
            }
        }
    }
    for reason in &plan.degraded {
        let _ = writeln!(text, "Degraded ({}): {}", reason.reason, reason.message);
    }
    for wait in plan.waits.iter().filter(|wait| wait.machine().is_none()) {
        let _ = writeln!(text, "Waits: {}", wait.message);
    }
    for note in &plan.notes {
        let _ = writeln!(text, "Note: {note}");
    }
    if let Some(step) = plan.disruptive() {
        let machine = step.machine().unwrap_or_default();
        let _ = writeln!(text, "Next: {} {machine}: {}", step.verb(), step.because);
    }
    text
}

fn as_json(assessment: &Assessment, now: Timestamp) -> Value {
    let plan = &assessment.plan;
    let conditions = assessment.set.status.as_ref().map(|status| &status.conditions);
    let mut all = json!({
        "set": assessment.set.metadata.name(),
        "valid": matches!(assessment.reading, Reading::Valid(_)),
        "deleting": matches!(assessment.reading, Reading::Leaving),
        "active": assessment.is_active(),
        "conditions": conditions,
        "waits": plan.waits.iter().map(|wait| json!({
            "index": wait.index, "machine": wait.machine(), "for": wait.reason.name(), "message": wait.message,
        })).collect::<Vec<Value>>(),
        "notes": plan.notes,
    });
    let reasons = plan
        .degraded
        .iter()
        .map(|reason| json!({"reason": reason.reason, "message": reason.message}));
    let mut put = |field: &str, value: Value| {
        if let Some(all) = all.as_object_mut() {
            all.insert(field.to_owned(), value);
        }
    };
    put("degraded", reasons.collect());
    if let Reading::Valid(read) = &assessment.reading {
        let (spec, state) = &**read;
        let tree = progress(spec, state, now);
        put("strategy", json!(spec.strategy.name()));
        put("revision", json!(state.revision));
        put("progress", json!({"updated": tree.done, "total": tree.of}));
        put(
            "indexes",
            state
                .indexes
                .iter()
                .map(|index| of_index(spec, state, plan, *index))
                .collect(),
        );
        put(
            "machines",
            state
                .each_machine()
                .map(|machine| of_machine(spec, state, plan, machine))
                .collect(),
        );
    }
    all
}

fn of_index(spec: &Spec, state: &State, plan: &Plan, index: u32) -> Value {
    let waits = plan
        .waits
        .iter()
        .filter(|wait| wait.index == Some(index) && wait.machine().is_none());
    json!({
        "index": index,
        "failureDomain": listed_domain(spec, state, index),
        "machines": state.of_index(index).map(|machine| machine.name.as_str()).collect::<Vec<&str>>(),
        "waits": waits.map(|wait| wait.message.as_str()).collect::<Vec<&str>>(),
    })
}

/// The failure domain of an index as the set lists it; null if the set does not list it.
fn listed_domain(spec: &Spec, state: &State, index: u32) -> Value {
    let domain = state.placement.get(&index);
    let listed = domain.filter(|domain| spec.failure_domains.contains(domain));
    listed.map_or(Value::Null, |domain| domain.entry().clone())
}

fn of_machine(spec: &Spec, state: &State, plan: &Plan, machine: &MachineState) -> Value {
    json!({
        "name": machine.name,
        "index": machine.index,
        "failureDomain": listed_domain(spec, state, machine.index),
        "phase": machine.phase,
        "node": machine.node.name(),
        "ready": machine.is_ready(),
        "current": machine.is_current(),
        "deleting": machine.is_deleting(),
        "hooks": machine.hooks,
        "changes": machine.changes.iter()
            .map(|change| json!({"field": change.field, "old": change.old, "new": change.new}))
            .collect::<Vec<Value>>(),
        "waits": waits(plan, machine).collect::<Vec<&str>>(),
    })
}
