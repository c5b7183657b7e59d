//! `capstan migrate`: requests that the other API becomes authoritative for Machines, MachineSets,
//! or MachineHealthChecks, or cancels such requests, and waits for the end.
//!
//! `one` handles one object. This file selects the objects, and how many are handled at once.

mod one;
mod outcome;

use std::collections::BTreeSet;
use std::io::Write as _;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, bail};
use capstan_core::api::kind::KindInfo;
use capstan_core::api::kinds;
use capstan_core::api::machine_openshift_io::NAMESPACE;
use capstan_core::authority::spec::Api;
use futures::{StreamExt as _, TryStreamExt as _};
use kube::api::{DynamicObject, ListParams};

use super::cluster::{Authority, CONNECT, Cluster, namespace};
use super::observe::runtime;
use super::output::{Output, pretty, yaml};
use crate::runtime::api;
use one::Migration;
use outcome::Reported;

/// Migrate Machines, MachineSets, or MachineHealthChecks, or cancel migrations.
///
/// The command checks each request as the webhooks do, with the objects of the
/// cluster, and writes nothing if a field prevents the migration. Then it sets
/// spec.authoritativeAPI. The mirroring controllers carry out the migration.
///
/// With --wait, an object is requested after the migration of the object before
/// it has ended. If that does not end, the remaining objects are skipped.
///
/// The exit code is 0 when the request is stored, and with --wait when the API is
/// authoritative; 1 when the migration is refused, blocked, or taken back; 2 when
/// the cluster cannot be read; 3 when the timeout has passed. With several
/// objects, 2 is reported before 3, and 3 before 1.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  capstan migrate machineset workers-a --to clusterAPI --dry-run
  capstan migrate machine workers-a-7k2x --to clusterAPI --wait
  capstan migrate machine --selector pool=a --to clusterAPI --wait --parallel 5
  capstan migrate machine workers-a-7k2x --cancel --wait")]
pub struct Args {
    /// The kind of the objects.
    #[arg(value_enum)]
    kind: Kind,
    /// The names of the objects, which are the same in both APIs.
    #[arg(
        required_unless_present = "selector",
        conflicts_with = "selector",
        value_name = "NAME",
        value_parser = clap::builder::NonEmptyStringValueParser::new()
    )]
    names: Vec<String>,
    /// All objects of the Machine API with these labels.
    #[arg(short = 'l', long, value_name = "LABELS")]
    selector: Option<String>,
    /// The API that becomes authoritative.
    #[arg(long, value_enum, required_unless_present = "cancel", conflicts_with = "cancel")]
    to: Option<To>,
    /// Take the request back: the API that was authoritative before it stays so.
    #[arg(long)]
    cancel: bool,
    /// Only tell whether the migration is possible. Nothing is written.
    #[arg(long, conflicts_with = "wait")]
    dry_run: bool,
    /// Wait until the API is authoritative.
    #[arg(long)]
    wait: bool,
    /// How many objects are migrated at the same time.
    #[arg(long, default_value_t = 1, value_name = "NUMBER", requires = "wait",
        value_parser = clap::value_parser!(u16).range(1..=100))]
    parallel: u16,
    /// The timeout of --wait for each object.
    #[arg(long, default_value = "1h", value_parser = super::serve::duration, value_name = "TIME",
        requires = "wait")]
    timeout: Duration,
    /// The format of the result.
    #[arg(short, long, value_enum, default_value = "text")]
    output: Output,
    #[command(flatten)]
    cluster: Cluster,
    /// Namespace of the Machine API.
    #[arg(short, long, default_value = NAMESPACE, value_name = "NAMESPACE", value_parser = namespace,
        help_heading = "Cluster")]
    namespace: String,
    #[command(flatten)]
    authority: Authority,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Kind {
    Machine,
    #[value(name = "machineset")]
    MachineSet,
    #[value(name = "machinehealthcheck")]
    MachineHealthCheck,
}

impl Kind {
    fn of(self, api: Api) -> &'static KindInfo {
        match (self, api) {
            (Self::Machine, Api::MachineApi) => &kinds::MACHINES,
            (Self::Machine, Api::ClusterApi) => &kinds::CLUSTER_API_MACHINES,
            (Self::MachineSet, Api::MachineApi) => &kinds::MACHINE_SETS,
            (Self::MachineSet, Api::ClusterApi) => &kinds::CLUSTER_API_MACHINE_SETS,
            (Self::MachineHealthCheck, Api::MachineApi) => &kinds::MACHINE_HEALTH_CHECKS,
            (Self::MachineHealthCheck, Api::ClusterApi) => &kinds::CLUSTER_API_MACHINE_HEALTH_CHECKS,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum To {
    #[value(name = "machineAPI", alias = "MachineAPI", alias = "machine-api")]
    MachineApi,
    #[value(name = "clusterAPI", alias = "ClusterAPI", alias = "cluster-api")]
    ClusterApi,
}

impl From<To> for Api {
    fn from(to: To) -> Self {
        match to {
            To::MachineApi => Self::MachineApi,
            To::ClusterApi => Self::ClusterApi,
        }
    }
}

/// Requests or cancels the migrations.
///
/// # Errors
/// The cluster cannot be read, or no object fits the selector.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    runtime()?.block_on(migrate(args))
}

async fn migrate(args: &Args) -> anyhow::Result<ExitCode> {
    let client = args.cluster.connect(CONNECT).await?.client;
    let names = match &args.selector {
        Some(selector) => selected(args, &client, selector).await?,
        None => distinct(&args.names),
    };
    let stopped = AtomicBool::new(false);
    let all: Vec<Reported> = futures::stream::iter(&names)
        .map(|name| one_of_several(args, &client, name, &stopped))
        .buffered(usize::from(args.parallel))
        .try_collect()
        .await?;
    let value = outcome::value(&args.namespace, &all);
    match args.output {
        Output::Json => print(pretty(&value)?.trim_end())?,
        Output::Yaml => print(yaml(&value)?.trim_end())?,
        Output::Text if all.len() > 1 => print(&outcome::summary(&all))?,
        Output::Text => {}
    }
    Ok(ExitCode::from(outcome::code(&all)))
}

/// The names, each once, in their order.
fn distinct(names: &[String]) -> Vec<String> {
    let mut seen = BTreeSet::new();
    names.iter().filter(|name| seen.insert(*name)).cloned().collect()
}

/// Migrates one object, unless an earlier migration did not end.
async fn one_of_several(
    args: &Args,
    client: &kube::Client,
    name: &str,
    stopped: &AtomicBool,
) -> anyhow::Result<Reported> {
    let migration = Migration::new(args, client, name);
    if stopped.load(Ordering::Relaxed) {
        return migration.skip();
    }
    let reported = migration.run().await?;
    if reported.outcome.stops() && args.wait {
        stopped.store(true, Ordering::Relaxed);
    }
    Ok(reported)
}

/// The names of the objects of the Machine API with these labels.
async fn selected(args: &Args, client: &kube::Client, selector: &str) -> anyhow::Result<Vec<String>> {
    let kind = args.kind.of(Api::MachineApi);
    let objects: kube::Api<DynamicObject> = api(client, kind, Some(&args.namespace));
    let list = objects
        .list(&ListParams::default().labels(selector))
        .await
        .with_context(|| format!("listing the {}s of the selector {selector}", kind.kind))?;
    let names: Vec<String> = list
        .items
        .into_iter()
        .filter_map(|object| object.metadata.name)
        .collect();
    if names.is_empty() {
        bail!(
            "a {} with the labels {selector} must exist in {}",
            kind.kind,
            args.namespace
        );
    }
    Ok(names)
}

/// Prints a line. A reader that has closed its end of a pipe does not prevent the rest: the request
/// must be stored, or the exit code must tell that it is not.
fn print(text: &str) -> anyhow::Result<()> {
    match writeln!(std::io::stdout(), "{text}") {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        written => written.context("writing the result"),
    }
}
