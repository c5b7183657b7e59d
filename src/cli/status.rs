//! `capstan status`: shows the control plane as a tree, the progress of its rollout, and the reason
//! why each machine waits.

use std::fmt::Write as _;
use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use capstan_core::api::meta::Condition;
use capstan_core::cpms::machine_state::{MachineState, NodeState};
use capstan_core::cpms::progress::progress;
use capstan_core::cpms::spec::SetState;
use capstan_core::cpms::status::condition;
use capstan_core::kcp::observed::is_control_plane;
use capstan_core::pool::observed::is_pool;
use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::watch;

use self::json::{as_json, waits};
use super::documents::{self, Document};
use super::observe::{ObservedCluster, runtime};
use super::output::{plain, pretty, yaml};
use super::plan::is_about_control_plane;
use super::{kubeadm_control_plane, machine_pool, managed_cluster, page_report, validity, wait};
use crate::controllers::{Assessment, Reading};
use crate::dashboard::{self, Content};
use crate::runtime::View;

mod both_apis;
pub(super) mod json;
mod scaled;

/// Show the state of the control plane and the progress of its rollout.
///
/// The output is a tree of indexes, machines, nodes and hooks, with the reason why
/// each machine waits. Without an Active set, the ControlPlane of the cluster is shown
/// by failure domain. For a KubeadmControlPlane or a MachinePool, the output has
/// also the conditions that the controller computes.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  capstan status --watch
  capstan status -o json | jq .progress
  capstan status --both-apis
  capstan status -o html > report.html
  capstan status -f control-plane.yaml -f machines/ -f etcd.yaml")]
pub struct Args {
    /// Objects of a KubeadmControlPlane or of a MachinePool: a file or a folder; may be
    /// repeated. Without this flag, the set of a cluster is shown.
    #[arg(short, long = "filename", value_name = "FILE|DIR", conflicts_with_all = ["watch", "kubeconfig", "context"])]
    files: Vec<PathBuf>,
    /// Show this KubeadmControlPlane of a cluster. Its objects are read from the
    /// management cluster, and the Nodes from the managed cluster with its kubeconfig
    /// Secret.
    #[arg(long, value_name = "NAMESPACE/NAME", conflicts_with_all = ["files", "watch"])]
    kubeadm_control_plane: Option<managed_cluster::Named>,
    /// Show this MachinePool of a management cluster.
    #[arg(long, value_name = "NAMESPACE/NAME", conflicts_with_all = ["files", "watch", "kubeadm_control_plane"])]
    machine_pool: Option<managed_cluster::Named>,
    /// Whether Capstan creates the Machines of a MachinePool, or the core manager of
    /// Cluster API does.
    #[arg(long, value_enum, value_name = "MODE", default_value = "extend")]
    machinepools: machine_pool::Machinepools,
    /// Show each object that exists in the Machine API and in Cluster API: which API is
    /// authoritative, whether the mirror agrees, which API is paused, and since when a
    /// migration waits.
    #[arg(long, conflicts_with_all = ["files", "watch", "kubeadm_control_plane", "machine_pool"])]
    both_apis: bool,
    /// The time of the status of files; the default is now.
    #[arg(long, value_parser = super::serve::moment, value_name = "TIME", requires = "files")]
    now: Option<Timestamp>,
    /// Continue, and show every change until Ctrl-C.
    #[arg(short, long)]
    watch: bool,
    /// The output format. With --watch, JSON is one line for each change, and YAML one
    /// document.
    #[arg(short, long, value_enum, default_value = "text")]
    output: Output,
    /// Exit with 0 if all machines are up to date and ready, with 1 if a user must act,
    /// and with 3 during a rollout.
    #[arg(long, conflicts_with_all = ["watch", "files", "kubeadm_control_plane", "machine_pool", "both_apis"])]
    exit_code: bool,
    #[command(flatten)]
    cluster: ObservedCluster,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    Text,
    Json,
    Yaml,
    /// A page in one file
    Html,
    /// An image of the machines and of the objects of both APIs
    Svg,
}

/// Prints the status.
///
/// # Errors
/// There is no set, or the cluster cannot be read.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if let Some(named) = &args.kubeadm_control_plane {
        let documents = managed_cluster::objects(args.cluster.connection(), named)?;
        return of_documents(args, &documents, "From the cluster");
    }
    if let Some(named) = &args.machine_pool {
        let documents = machine_pool::objects(args.cluster.connection(), named)?;
        return of_documents(args, &documents, "From the cluster");
    }
    if !args.files.is_empty() {
        let documents = documents::read_surroundings(&args.files)?;
        let options = args.cluster.scope().options();
        match is_about_control_plane(&documents) {
            true => validity::note_refused(&documents, is_control_plane, options)?,
            false => validity::note_refused(&documents, is_pool, options)?,
        }
        return of_documents(args, &documents, "From files");
    }
    runtime()?.block_on(async {
        if args.both_apis {
            return show_both_apis(args).await;
        }
        if args.watch {
            watch(args).await
        } else if args.output.is_page() {
            let live = page_report::Live::start(&args.cluster).await?;
            let now = Timestamp::now();
            let source = format!("Namespace {}", args.cluster.scope().namespace);
            let content = live.content(now)?;
            if let Some(reason) = content.empty {
                bail!("{reason}");
            }
            print(args, &args.output.draw(content, &source, now))?;
            Ok(ExitCode::SUCCESS)
        } else {
            let (text, code) = if args.cluster.has_control_plane().await? {
                let (_caches, views) = args.cluster.watch_control_plane().await?;
                let view = Arc::clone(&views.borrow());
                let assessment = args.cluster.assess_control_plane(&view)?;
                (
                    show_control_plane(args, &view)?,
                    wait::exit_code_of_control_plane(&assessment),
                )
            } else {
                let view = args.cluster.view().await?;
                let now = Timestamp::now();
                let assessment = args.cluster.assess(&view, now)?;
                (show(args, &view)?, wait::exit_code(&assessment, now))
            };
            print(args, &text)?;
            Ok(if args.exit_code { code } else { ExitCode::SUCCESS })
        }
    })
}

/// Prints a line for each pair.
async fn show_both_apis(args: &Args) -> anyhow::Result<ExitCode> {
    if args.output.is_page() {
        bail!("--both-apis must not be combined with -o html or -o svg, which show these objects anyway");
    }
    let rows = both_apis::rows(&args.cluster).await?;
    let text = both_apis::as_text(&rows, Timestamp::now());
    print_report(args, &both_apis::as_json(&rows), text)
}

/// Prints the status of a KubeadmControlPlane or of a MachinePool from its objects.
fn of_documents(args: &Args, documents: &[Document], source: &str) -> anyhow::Result<ExitCode> {
    let now = args.now.unwrap_or_else(Timestamp::now);
    if args.output.is_page() {
        let content = page_report::of_documents(documents, &args.cluster, args.machinepools, now)?;
        print(args, &args.output.draw(content, source, now))?;
        return Ok(ExitCode::SUCCESS);
    }
    if machine_pool::is_about_pool(documents) && !is_about_control_plane(documents) {
        let (report, text) = machine_pool::state(documents, args.machinepools, now)?;
        return print_report(args, &report, text);
    }
    if !is_about_control_plane(documents) {
        if documents.iter().any(|document| is_control_plane(&document.object)) {
            bail!(
                "the files must not contain a ControlPlaneMachineSet beside a KubeadmControlPlane; give the objects of \
                 one of them, or use -o html, which shows both"
            );
        }
        bail!(
            "the files must contain a KubeadmControlPlane or a MachinePool; `capstan plan -f` shows a \
             ControlPlaneMachineSet"
        );
    }
    let (report, text) = kubeadm_control_plane::state(documents, now)?;
    print_report(args, &report, text)
}

/// Prints a report in the format that is wanted; `text` is its text.
fn print_report(args: &Args, report: &Value, text: String) -> anyhow::Result<ExitCode> {
    let shown = match args.output {
        Output::Json => pretty(report)?,
        Output::Yaml => yaml(report)?,
        Output::Text | Output::Html | Output::Svg => text,
    };
    print(args, &shown)?;
    Ok(ExitCode::SUCCESS)
}

async fn watch(args: &Args) -> anyhow::Result<ExitCode> {
    if args.output.is_page() {
        bail!(
            "--watch must not be combined with -o html or -o svg; `capstan dashboard` shows a page that follows the cluster"
        );
    }
    if args.cluster.has_control_plane().await? {
        let (_caches, views) = args.cluster.watch_control_plane().await?;
        return follow(args, views, show_control_plane).await;
    }
    let (_caches, views) = args.cluster.watch().await?;
    follow(args, views, show).await
}

/// Prints every change of the views.
async fn follow(
    args: &Args,
    mut views: watch::Receiver<Arc<View>>,
    show: impl Fn(&Args, &View) -> anyhow::Result<String>,
) -> anyhow::Result<ExitCode> {
    let clears = args.output == Output::Text && std::io::stdout().is_terminal();
    let mut last = String::new();
    loop {
        let view = views.borrow_and_update().clone();
        // While no set exists, the output is that error.
        let text = show(args, &view).unwrap_or_else(|error| format!("{error:#}\n"));
        if text != last {
            if clears {
                let cleared = std::io::stdout().write_all(b"\x1b[H\x1b[2J");
                cleared.context("clearing the terminal")?;
            }
            print(args, &format!("{text}{}", if clears { "" } else { "\n" }))?;
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

fn show_control_plane(args: &Args, view: &View) -> anyhow::Result<String> {
    let assessment = args.cluster.assess_control_plane(view)?;
    match args.output {
        Output::Text | Output::Html | Output::Svg => Ok(scaled::as_text(&assessment)),
        Output::Json if args.watch => Ok(scaled::as_json(&assessment).to_string()),
        Output::Json => pretty(&scaled::as_json(&assessment)),
        Output::Yaml if args.watch => Ok(format!("---\n{}", yaml(&scaled::as_json(&assessment))?.trim_end())),
        Output::Yaml => yaml(&scaled::as_json(&assessment)),
    }
}

fn show(args: &Args, view: &View) -> anyhow::Result<String> {
    let now = Timestamp::now();
    let assessment = args.cluster.assess(view, now)?;
    match args.output {
        Output::Text | Output::Html | Output::Svg => Ok(as_text(&assessment, now)),
        Output::Json if args.watch => Ok(as_json(&assessment, now).to_string()),
        Output::Json => pretty(&as_json(&assessment, now)),
        Output::Yaml if args.watch => Ok(format!("---\n{}", yaml(&as_json(&assessment, now))?.trim_end())),
        Output::Yaml => yaml(&as_json(&assessment, now)),
    }
}

impl Output {
    /// Whether the output is drawn by the dashboard.
    fn is_page(self) -> bool {
        matches!(self, Self::Html | Self::Svg)
    }

    /// The page or the image in one file.
    fn draw(self, content: Content, source: &str, now: Timestamp) -> String {
        if self == Self::Svg {
            format!("{}\n", dashboard::svg(&content))
        } else {
            dashboard::file(&Ok(content), source, &now.to_string())
        }
    }
}

fn print(args: &Args, text: &str) -> anyhow::Result<()> {
    let text = match args.output {
        Output::Text => plain(text),
        Output::Json | Output::Yaml | Output::Html | Output::Svg => text.into(),
    };
    let mut out = std::io::stdout();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .context("writing the status")
}

fn node(machine: &MachineState) -> String {
    match &machine.node {
        NodeState::None => "no node yet".to_owned(),
        NodeState::Missing { name } => format!("node {name} does not exist"),
        NodeState::OfAnother { name, machine } => format!("node {name} belongs to machine {machine}"),
        NodeState::NotReady { name, .. } => format!("node {name} not ready"),
        NodeState::Ready { name, .. } => format!("node {name} ready"),
    }
}

/// The line about what keeps the controller from working, as it reports it; empty without an error.
/// The plan alone does not show it.
fn error<'a>(conditions: impl Iterator<Item = &'a Condition>) -> String {
    let is_true = |condition: &&Condition| condition.type_ == condition::ERROR && condition.status == "True";
    let mut conditions = conditions;
    let found = conditions.find(is_true);
    found.map_or_else(String::new, |found| {
        format!("Error ({}): {}\n", found.reason, found.message)
    })
}

/// What an object that is being deleted waits for. Its machines go if a user helps in another way.
const LEAVING: &str = "is being deleted. Its controllers release the machines, which stay, and then remove its \
                       finalizer.\nIf it stays, start the controllers. Do not remove the finalizer: the garbage collector \
                       would delete the machines.\n";

fn as_text(assessment: &Assessment, now: Timestamp) -> String {
    let name = assessment.set.metadata.name();
    let (spec, state) = match &assessment.reading {
        Reading::Valid(read) => (&read.0, &read.1),
        Reading::Leaving => return format!("ControlPlaneMachineSet {name} {LEAVING}"),
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
    let status = assessment.set.status.as_ref();
    text.push_str(&error(status.into_iter().flat_map(|status| &status.conditions)));
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn w123_an_error_that_the_controller_reports_is_a_line_of_the_status() {
        let condition = |status: &str| -> Condition {
            let error = json!({"type": "Error", "status": status, "reason": "ContinuousErrors",
                "message": "deleting Machine a: denied", "lastTransitionTime": "2026-01-01T00:00:00Z"});
            serde_json::from_value(error).unwrap()
        };
        assert_eq!(
            error([condition("True")].iter()),
            "Error (ContinuousErrors): deleting Machine a: denied\n"
        );
        assert_eq!(error([condition("False")].iter()), "");
    }
}
