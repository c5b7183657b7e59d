//! `capstan dashboard`: shows the control plane as a page in the browser.

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use jiff::Timestamp;
use tokio::sync::watch;

use self::edit::Edits;
use super::machine_pool::Machinepools;
use super::observe::ObservedCluster;
use super::page_report::{self, Live};
use super::{documents, observe};
use crate::dashboard::{Dashboard, Source, Update, Verdict};

mod edit;

/// How often the page is computed again without a change in the cluster: some waits end only
/// because time passes.
const TICK: Duration = Duration::from_secs(1);

/// Show the control plane as a page in the browser.
///
/// The page follows the cluster, shows what admission would answer to an edit, and
/// can be saved as a file. It reads the cluster with the rights of your kubeconfig
/// and writes nothing. Only this machine can open it, with the printed address.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  capstan dashboard --open
  capstan dashboard -f set.yaml -f machines/ -f nodes.yaml
  capstan status -o html > report.html")]
pub struct Args {
    /// Objects to show instead of a cluster: a file or a folder; may be repeated. One
    /// or more control planes with their Machines and Nodes.
    #[arg(short, long = "filename", value_name = "FILE|DIR", conflicts_with_all = ["kubeconfig", "context"])]
    files: Vec<PathBuf>,
    /// Loopback address of the page; port 0 selects a free port.
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDRESS")]
    listen: SocketAddr,
    /// Open the page in the browser.
    #[arg(long)]
    open: bool,
    #[command(flatten)]
    cluster: ObservedCluster,
}

struct Page {
    name: String,
    is_live: bool,
    edits: Edits,
}

impl Source for Page {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn is_live(&self) -> bool {
        self.is_live
    }

    fn manifest(&self, kind: &str, name: &str) -> anyhow::Result<String> {
        self.edits.manifest(kind, name)
    }

    fn judge(&self, manifest: &str) -> anyhow::Result<Vec<Verdict>> {
        self.edits.judge(manifest)
    }
}

/// Serves the page until the process ends.
///
/// # Errors
/// The files or the cluster cannot be read, or the address cannot be used.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let dashboard = Dashboard::bind(args.listen)?;
    if args.files.is_empty() {
        observe::runtime()?.block_on(live(args, dashboard))
    } else {
        let edits = Edits::new(&args.files, &args.cluster, None)?;
        let documents = documents::read_surroundings(&args.files)?;
        let content = page_report::of_documents(&documents, &args.cluster, Machinepools::default(), Timestamp::now())?;
        let (_updates, receiver) = watch::channel(Arc::new(Ok(content)));
        let name = match args.files.len() {
            1 => String::from("1 file or folder, read at the start"),
            several => format!("{several} files or folders, read at the start"),
        };
        let page = Page {
            name,
            is_live: false,
            edits,
        };
        observe::runtime()?.block_on(async {
            announce(args, &dashboard)?;
            dashboard.serve(Box::new(page), receiver).await
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

async fn live(args: &Args, dashboard: Dashboard) -> anyhow::Result<ExitCode> {
    let mut live = Live::start(&args.cluster).await?;
    let show = |live: &Live| -> Update { live.content(Timestamp::now()).map_err(|error| format!("{error:#}")) };
    let (updates, receiver) = watch::channel(Arc::new(show(&live)));
    let stored = Arc::new(Mutex::new(live.documents()));
    let edits = Edits::new(&[], &args.cluster, Some(Arc::clone(&stored)))?;
    let cluster = args.cluster.connection().title().await?;
    let name = format!("{cluster}, namespace {}", args.cluster.scope().namespace);
    announce(args, &dashboard)?;
    let follow = async {
        loop {
            live.follow_infrastructure().await;
            let started = Instant::now();
            let update = show(&live);
            *stored.lock().unwrap_or_else(PoisonError::into_inner) = live.documents();
            updates.send_if_modified(|last| {
                let is_new = **last != update;
                if is_new {
                    *last = Arc::new(update);
                }
                is_new
            });
            // A large cluster changes all the time. The page takes at most a fifth of a core.
            tokio::time::sleep(started.elapsed() * 4).await;
            tokio::select! {
                changed = live.changed() => if !changed { return },
                () = tokio::time::sleep(TICK) => {}
            }
        }
    };
    let page = Page {
        name,
        is_live: true,
        edits,
    };
    tokio::select! {
        served = dashboard.serve(Box::new(page), receiver) => served?,
        () = follow => {}
        _ = tokio::signal::ctrl_c() => {}
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints the address, and opens the page on request. Without a browser, the page is served all the
/// same.
fn announce(args: &Args, dashboard: &Dashboard) -> anyhow::Result<()> {
    let url = dashboard.url();
    let mut out = std::io::stdout();
    writeln!(out, "{url}")
        .and_then(|()| out.flush())
        .context("printing the address of the page")?;
    if args.open {
        let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
        if let Err(error) = std::process::Command::new(program).arg(&url).spawn() {
            documents::note(&format!(
                "--open: starting {program} failed: {error}; open the printed address instead"
            ));
        }
    }
    Ok(())
}
