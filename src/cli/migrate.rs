//! `capstan migrate`: requests that the other API becomes authoritative for a Machine, a
//! MachineSet, or a MachineHealthCheck, or cancels such a request, and waits for the end.

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail};
use capstan_core::admission::{Admission, Check, Checked, Checker, Options, Snapshot};
use capstan_core::api::kind::KindInfo;
use capstan_core::api::kinds;
use capstan_core::api::machine_openshift_io::NAMESPACE;
use capstan_core::authority::pair::FullObject;
use capstan_core::authority::request::{Standing, source, standing};
use capstan_core::authority::spec::Api;
use capstan_core::conversion;
use capstan_core::model::{Operation, User};
use jiff::SignedDuration;
use kube::api::{DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::cluster::{Authority, CONNECT, Cluster, namespace};
use super::observe::runtime;
use crate::runtime::api;

/// How long a field may prevent the migration before the command gives up. The sync controller
/// needs a moment to compare the objects again after an edit.
const BLOCKED: Duration = Duration::from_secs(15);
/// How often the object is read.
const PERIOD: Duration = Duration::from_millis(500);
/// How the webhooks begin a warning about a field that blocks a migration.
const CANNOT: &str = "cannot migrate";

/// Migrate a Machine, a MachineSet, or a MachineHealthCheck, or cancel a migration.
///
/// The command checks the request as the webhooks do, with the objects of the
/// cluster, and writes nothing if a field prevents the migration. Then it sets
/// spec.authoritativeAPI. The mirroring controllers carry out the migration.
///
/// The exit code is 0 when the request is stored, and with --wait when the API is
/// authoritative; 1 when the migration is refused, blocked, or taken back; 2 when
/// the cluster cannot be read; 3 when the timeout has passed.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  capstan migrate machineset workers-a --to clusterAPI --dry-run
  capstan migrate machine workers-a-7k2x --to clusterAPI --wait
  capstan migrate machine workers-a-7k2x --cancel --wait")]
pub struct Args {
    /// The kind of the object.
    #[arg(value_enum)]
    kind: Kind,
    /// The name of the object, which is the same in both APIs.
    name: String,
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
    /// The timeout of --wait.
    #[arg(long, default_value = "1h", value_parser = super::serve::signed_duration, value_name = "TIME",
        requires = "wait")]
    timeout: SignedDuration,
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

/// Requests or cancels the migration.
///
/// # Errors
/// The cluster cannot be read, or the object does not exist.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    runtime()?.block_on(migrate(args))
}

async fn migrate(args: &Args) -> anyhow::Result<ExitCode> {
    let client = args.cluster.connect(CONNECT).await?.client;
    let migration = Migration { args, client };
    let object = migration.object().await?;
    let title = migration.title();
    let Some(from) = source(&object) else {
        if let Standing::Ended(why) = standing(&object, object.member.desired_api()) {
            print(&format!("{title}: refused: {why}"))?;
        }
        return Ok(ExitCode::from(1));
    };
    let to = args.to.map_or(from, Api::from);
    let is_requested = object.member.desired_api() == to && object.member.spec_authority.is_some();
    if is_requested && standing(&object, to) == Standing::Done {
        print(&format!("{title}: {} is authoritative already", to.title()))?;
        return Ok(ExitCode::SUCCESS);
    }
    if !is_requested && !migration.is_possible(&object, to).await? {
        return Ok(ExitCode::from(1));
    }
    if args.dry_run {
        print(&format!("{title}: nothing is written, because of --dry-run"))?;
        return Ok(ExitCode::SUCCESS);
    }
    if !is_requested && !migration.request(&object, to).await? {
        return Ok(ExitCode::from(1));
    }
    if args.wait {
        return migration.wait(to).await;
    }
    Ok(ExitCode::SUCCESS)
}

struct Migration<'a> {
    args: &'a Args,
    client: kube::Client,
}

impl Migration<'_> {
    fn title(&self) -> String {
        let kind = &self.args.kind.of(Api::MachineApi).kind;
        format!("{kind} {}/{}", self.args.namespace, self.args.name)
    }

    async fn get(&self, kind: &KindInfo, namespace: Option<&str>, name: &str) -> anyhow::Result<Option<Value>> {
        let objects: kube::Api<DynamicObject> = api(&self.client, kind, namespace);
        let reading = || format!("reading {} {name}", kind.kind);
        match objects.get_opt(name).await {
            Ok(found) => Ok(found.map(serde_json::to_value).transpose().with_context(reading)?),
            // The cluster does not serve the kind.
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(error).with_context(reading),
        }
    }

    /// The object of the Machine API.
    async fn object(&self) -> anyhow::Result<FullObject> {
        let kind = self.args.kind.of(Api::MachineApi);
        let found = self.get(kind, Some(&self.args.namespace), &self.args.name).await?;
        match found {
            Some(object) => Ok(FullObject::from(object)),
            None => bail!("{} must exist in the cluster", self.title()),
        }
    }

    /// The objects that the rules about a migration look up.
    async fn others(&self, object: &FullObject) -> anyhow::Result<Vec<Value>> {
        let home = Some(self.args.authority.cluster_api_namespace.as_str());
        let mut others = Vec::new();
        let mirror = self
            .get(self.args.kind.of(Api::ClusterApi), home, &self.args.name)
            .await?;
        if let Some((kind, name)) = mirror.as_ref().and_then(conversion::infrastructure_of)
            && let Some(entry) = kinds::find(capstan_core::api::infrastructure_cluster_x_k8s_io::GROUP, &kind)
        {
            others.extend(self.get(&entry.kind, home, &name).await?);
        }
        others.extend(mirror);
        let infrastructure = self.get(&kinds::INFRASTRUCTURES, None, "cluster").await?;
        let cluster = infrastructure
            .as_ref()
            .and_then(|known| known.pointer("/status/infrastructureName")?.as_str());
        if let (Some(name), Some(kind)) = (cluster, conversion::cluster_kind(&object.value))
            && let Some(entry) = kinds::find(capstan_core::api::infrastructure_cluster_x_k8s_io::GROUP, kind)
        {
            others.extend(self.get(&entry.kind, home, name).await?);
        }
        others.extend(infrastructure);
        Ok(others)
    }

    /// Checks the request as the webhooks do, and prints the answer.
    async fn is_possible(&self, object: &FullObject, to: Api) -> anyhow::Result<bool> {
        let mut asked = object.value.clone();
        if let Some(Value::Object(spec)) = asked.get_mut("spec") {
            spec.insert(String::from("authoritativeAPI"), to.as_str().into());
        }
        let mut given = self.others(object).await?;
        given.push(object.value.clone());
        let snapshot = Snapshot::of_files(&given).context("reading the objects of the cluster")?;
        let options = Options {
            authority: self.args.authority.config(&self.args.namespace),
            namespace: self.args.namespace.clone(),
            ..Options::default()
        };
        let admission = Admission::new(options).context("loading the built-in rules")?;
        let checker = Checker::new(admission).context("loading the built-in schemas")?;
        let user = User::default();
        let check = Check {
            operation: Operation::Update,
            object: &asked,
            old: Some(&object.value),
            propagation: None,
            user: &user,
        };
        let (possible, text) = judged(&self.title(), to, &checker.check(&check, &snapshot));
        print(text.trim_end())?;
        Ok(possible)
    }

    /// Sets `spec.authoritativeAPI`. Returns whether the API server stored it.
    async fn request(&self, object: &FullObject, to: Api) -> anyhow::Result<bool> {
        let kind = self.args.kind.of(Api::MachineApi);
        let objects: kube::Api<DynamicObject> = api(&self.client, kind, Some(&self.args.namespace));
        // Another object of this name is not meant.
        let patch = json!({"metadata": {"uid": object.uid()}, "spec": {"authoritativeAPI": to.as_str()}});
        let parameters = PatchParams {
            field_manager: Some(String::from("capstan-migrate")),
            ..PatchParams::default()
        };
        match objects.patch(&self.args.name, &parameters, &Patch::Merge(&patch)).await {
            Ok(_) => {
                print(&format!("{}: spec.authoritativeAPI is {}", self.title(), to.as_str()))?;
                Ok(true)
            }
            Err(kube::Error::Api(status)) if [403, 409, 422].contains(&status.code) => {
                print(&format!("{}: refused: {}", self.title(), status.message))?;
                Ok(false)
            }
            Err(error) => Err(error).context("requesting the migration"),
        }
    }

    /// Waits until an API is authoritative.
    async fn wait(&self, to: Api) -> anyhow::Result<ExitCode> {
        let end = Instant::now() + Duration::try_from(self.args.timeout).unwrap_or_default();
        let title = self.title();
        let mut last = String::new();
        let mut blocked: Option<Instant> = None;
        loop {
            let why = match standing(&self.object().await?, to) {
                Standing::Done => {
                    print(&format!("{title}: {} is authoritative", to.title()))?;
                    return Ok(ExitCode::SUCCESS);
                }
                Standing::Ended(why) => {
                    print(&format!("{title}: ended: {why}"))?;
                    return Ok(ExitCode::from(1));
                }
                Standing::Blocked(why) if blocked.get_or_insert_with(Instant::now).elapsed() >= BLOCKED => {
                    print(&format!("{title}: blocked: {why}"))?;
                    return Ok(ExitCode::from(1));
                }
                Standing::Blocked(why) => why,
                Standing::Pending(why) => {
                    blocked = None;
                    why
                }
            };
            if why != last {
                // If standard error is closed, the text cannot be reported anywhere.
                let _ignored = writeln!(std::io::stderr(), "{title}: {why}");
                last = why;
            }
            if Instant::now() >= end {
                print(&format!("{title}: the timeout has passed: {last}"))?;
                return Ok(ExitCode::from(3));
            }
            tokio::time::sleep(PERIOD).await;
        }
    }
}

/// Whether a checked request can be carried out, and the answer as text.
fn judged(title: &str, to: Api, checked: &Checked) -> (bool, String) {
    let blocks = checked.warnings.iter().any(|warning| warning.text.contains(CANNOT));
    let possible = checked.status.is_none() && !blocks;
    let verdict = if possible { "possible" } else { "refused" };
    let mut text = format!("{title}: {} as the authoritative API: {verdict}\n", to.title());
    match &checked.status {
        Some(status) if checked.violations.is_empty() => text.push_str(&format!("  {}\n", status.message)),
        _ => {}
    }
    for violation in &checked.violations {
        text.push_str(&format!("  {violation}\n"));
    }
    for warning in &checked.warnings {
        text.push_str(&format!("  {}\n", warning.text));
    }
    (possible, text)
}

fn print(text: &str) -> anyhow::Result<()> {
    writeln!(std::io::stdout(), "{text}").context("writing the result")
}
