//! The migration of one object: the check, the request, and the wait for its end.

use std::cell::RefCell;
use std::io::Write as _;
use std::time::Duration;

use anyhow::{Context as _, bail};
use capstan_core::admission::{Admission, Check, Checked, Checker, Options, Snapshot};
use capstan_core::api::kind::KindInfo;
use capstan_core::api::kinds;
use capstan_core::authority::pair::FullObject;
use capstan_core::authority::recording;
use capstan_core::authority::request::{Standing, is_stopped, source, standing};
use capstan_core::authority::spec::{Api, Authority};
use capstan_core::conversion;
use capstan_core::model::{Operation, User};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::outcome::{Outcome, Reported};
use super::{Args, print};
use crate::cli::output::Output;
use crate::cli::refusal::sentence;
use crate::runtime::api;

/// How long a field may prevent the migration before the command gives up. The sync controller
/// needs a moment to compare the objects again after an edit.
const BLOCKED: Duration = Duration::from_secs(15);
/// How often the object is read.
const PERIOD: Duration = Duration::from_millis(500);
/// How the webhooks begin a warning about a field that blocks a migration.
const CANNOT: &str = "cannot migrate";

/// One object, and the messages about it.
pub(super) struct Migration<'a> {
    args: &'a Args,
    client: &'a kube::Client,
    name: &'a str,
    messages: RefCell<Vec<String>>,
}

impl<'a> Migration<'a> {
    pub(super) fn new(args: &'a Args, client: &'a kube::Client, name: &'a str) -> Self {
        Self {
            args,
            client,
            name,
            messages: RefCell::default(),
        }
    }

    /// Migrates the object, or cancels its migration.
    pub(super) async fn run(self) -> anyhow::Result<Reported> {
        let outcome = match self.outcome().await {
            Ok(outcome) => outcome,
            Err(error) => {
                self.record(&format!("{}: {}", self.title(), sentence(&error)))?;
                Outcome::Unreadable
            }
        };
        Ok(self.reported(outcome))
    }

    /// Tells that nothing is requested, because an earlier migration did not end.
    pub(super) fn skip(self) -> anyhow::Result<Reported> {
        self.record(&format!("{}: skipped: an earlier migration did not end", self.title()))?;
        Ok(self.reported(Outcome::Skipped))
    }

    fn reported(self, outcome: Outcome) -> Reported {
        Reported {
            kind: self.args.kind.of(Api::MachineApi).kind.to_string(),
            name: self.name.to_owned(),
            outcome,
            messages: self.messages.into_inner(),
        }
    }

    async fn outcome(&self) -> anyhow::Result<Outcome> {
        let object = self.object().await?;
        let title = self.title();
        let mirror = self.mirror_of_stopped(&object).await?;
        let from = source(&object, mirror.as_ref());
        let wanted = self.args.to.map(Api::from).or(from);
        if is_stopped(&object) && (from.is_none() || wanted != from) {
            self.record(&format!("{title}: refused: {}", recording::stopped(from)))?;
            return Ok(Outcome::Refused);
        }
        let Some(to) = wanted else {
            return Ok(Outcome::Refused);
        };
        // Then the request itself names the authoritative API, and no other one is recorded.
        if self.args.cancel && object.member.status_authority.is_none() {
            self.record(&format!(
                "{title}: refused: status.authoritativeAPI is empty, so no controller has seen the object, and it is \
                 not known which API was authoritative before the request; use --to with the name of the API instead of \
                 --cancel"
            ))?;
            return Ok(Outcome::Refused);
        }
        let is_requested = object.member.desired_api() == to && object.member.spec_authority.is_some();
        if is_requested && standing(&object, mirror.as_ref(), to) == Standing::Done {
            self.record(&format!("{title}: {} is authoritative already", to.title()))?;
            return Ok(Outcome::Already);
        }
        if !is_requested && to == Api::ClusterApi && !self.is_served(to).await? {
            let kind = &self.args.kind.of(to).kind;
            self.record(&format!(
                "{title}: refused: the cluster does not serve {kind} of Cluster API; install the CRDs of Cluster API and \
                 the feature mirroring-controllers first"
            ))?;
            return Ok(Outcome::Refused);
        }
        if from != Some(to)
            && let Some(why) = self.not_stored().await?
        {
            self.record(&format!("{title}: refused: {why}"))?;
            return Ok(Outcome::Refused);
        }
        // A request that is stored, and has not begun, may be impossible too.
        let has_begun = object.member.status_authority == Some(Authority::Migrating);
        let is_judged = !is_requested || (self.args.dry_run && !has_begun && from != Some(to));
        if is_requested && !self.args.wait {
            self.record(&format!("{title}: {} is requested already", to.title()))?;
        }
        if is_judged && !self.is_possible(&object, from, to).await? {
            return Ok(Outcome::Refused);
        }
        if self.args.dry_run {
            self.record(&format!("{title}: nothing is written, because of --dry-run"))?;
            return Ok(Outcome::Possible);
        }
        if !is_requested && !self.request(&object, to).await? {
            return Ok(Outcome::Refused);
        }
        match self.args.wait {
            true => self.wait(to).await,
            false => Ok(Outcome::Requested),
        }
    }

    /// Records a message, and prints it at once if the output is text.
    fn record(&self, text: &str) -> anyhow::Result<()> {
        self.messages.borrow_mut().push(text.to_owned());
        match self.args.output {
            Output::Text => print(text),
            Output::Json | Output::Yaml => Ok(()),
        }
    }

    fn title(&self) -> String {
        let kind = &self.args.kind.of(Api::MachineApi).kind;
        format!("{kind} {}/{}", self.args.namespace, self.name)
    }

    /// Whether the cluster serves the kind of an API.
    async fn is_served(&self, api_of: Api) -> anyhow::Result<bool> {
        let kind = self.args.kind.of(api_of);
        let home = Some(self.args.authority.cluster_api_namespace.as_str());
        let objects: kube::Api<DynamicObject> = api(self.client, kind, home);
        match objects.list_metadata(&ListParams::default().limit(1)).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
            // A user may request a migration, and not be allowed to list the objects.
            Err(kube::Error::Api(status)) if status.code == 403 => Ok(true),
            found => found.map(|_| true).with_context(|| format!("listing {}", kind.kind)),
        }
    }

    async fn get(&self, kind: &KindInfo, namespace: Option<&str>, name: &str) -> anyhow::Result<Option<Value>> {
        let objects: kube::Api<DynamicObject> = api(self.client, kind, namespace);
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
        let found = self.get(kind, Some(&self.args.namespace), self.name).await?;
        match found {
            Some(object) => Ok(FullObject::from(object)),
            None => bail!("{} must exist in the cluster", self.title()),
        }
    }

    /// The object of Cluster API, if only that one tells which API was authoritative before the
    /// migration.
    async fn mirror_of_stopped(&self, object: &FullObject) -> anyhow::Result<Option<FullObject>> {
        if !is_stopped(object) {
            return Ok(None);
        }
        let home = Some(self.args.authority.cluster_api_namespace.as_str());
        let mirror = self.get(self.args.kind.of(Api::ClusterApi), home, self.name).await?;
        Ok(mirror.map(FullObject::from))
    }

    /// Why the CRD of the objects does not allow a migration: it drops a field of the status.
    async fn not_stored(&self) -> anyhow::Result<Option<String>> {
        let kind = self.args.kind.of(Api::MachineApi);
        let definitions: kube::Api<DynamicObject> = kube::Api::all_with(
            self.client.clone(),
            &ApiResource::erase::<CustomResourceDefinition>(&()),
        );
        let name = format!("{}.{}", kind.plural, kind.group);
        let definition = match definitions.get_opt(&name).await {
            Ok(found) => found,
            // A user may request a migration, and not be allowed to read definitions. The mirroring
            // controllers check the fields again.
            Err(kube::Error::Api(status)) if status.code == 403 => return Ok(None),
            Err(error) => return Err(error).with_context(|| format!("reading the CRD {name}")),
        };
        let definition = serde_json::to_value(definition).with_context(|| format!("reading the CRD {name}"))?;
        let fields = recording::dropped_by(&definition, &kind.version);
        Ok((!fields.is_empty()).then(|| recording::dropped(&kind.kind, &fields)))
    }

    /// The objects that the rules about a migration look up.
    async fn others(&self, object: &FullObject) -> anyhow::Result<Vec<Value>> {
        let home = Some(self.args.authority.cluster_api_namespace.as_str());
        let mut others = Vec::new();
        let mirror = self.get(self.args.kind.of(Api::ClusterApi), home, self.name).await?;
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

    /// Checks the request as the webhooks do, and prints the answer. If it is stored already, the
    /// object without it is the old one.
    async fn is_possible(&self, object: &FullObject, from: Option<Api>, to: Api) -> anyhow::Result<bool> {
        let with = |api: Api| {
            let mut changed = (*object.value).clone();
            if let Some(Value::Object(spec)) = changed.get_mut("spec") {
                spec.insert(String::from("authoritativeAPI"), api.as_str().into());
            }
            changed
        };
        let is_requested = object.member.desired_api() == to && object.member.spec_authority.is_some();
        let old = match from.filter(|_| is_requested) {
            Some(from) => with(from),
            None => (*object.value).clone(),
        };
        let asked = with(to);
        let mut given = self.others(object).await?;
        given.push(old.clone());
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
            old: Some(&old),
            propagation: None,
            user: &user,
        };
        let (possible, text) = judged(&self.title(), to, &checker.check(&check, &snapshot));
        self.record(text.trim_end())?;
        Ok(possible)
    }

    /// Sets `spec.authoritativeAPI`. Returns whether the API server stored it.
    async fn request(&self, object: &FullObject, to: Api) -> anyhow::Result<bool> {
        let kind = self.args.kind.of(Api::MachineApi);
        let objects: kube::Api<DynamicObject> = api(self.client, kind, Some(&self.args.namespace));
        // Another object of this name is not meant.
        let patch = json!({"metadata": {"uid": object.uid()}, "spec": {"authoritativeAPI": to.as_str()}});
        let parameters = PatchParams {
            field_manager: Some(String::from("capstan-migrate")),
            ..PatchParams::default()
        };
        match objects.patch(self.name, &parameters, &Patch::Merge(&patch)).await {
            Ok(_) => {
                self.record(&format!("{}: spec.authoritativeAPI is {}", self.title(), to.as_str()))?;
                Ok(true)
            }
            Err(kube::Error::Api(status)) if [403, 409, 422].contains(&status.code) => {
                self.record(&format!("{}: refused: {}", self.title(), status.message))?;
                Ok(false)
            }
            Err(error) => Err(error).context("requesting the migration"),
        }
    }

    /// Waits until an API is authoritative.
    async fn wait(&self, to: Api) -> anyhow::Result<Outcome> {
        let end = Instant::now() + self.args.timeout;
        let title = self.title();
        let mut last = String::new();
        let mut blocked: Option<Instant> = None;
        loop {
            let object = self.object().await?;
            let mirror = self.mirror_of_stopped(&object).await?;
            let why = match standing(&object, mirror.as_ref(), to) {
                Standing::Done => {
                    self.record(&format!("{title}: {} is authoritative", to.title()))?;
                    return Ok(Outcome::Migrated);
                }
                Standing::Ended(why) => {
                    self.record(&format!("{title}: ended: {why}"))?;
                    return Ok(Outcome::Ended);
                }
                Standing::Blocked(why) if blocked.get_or_insert_with(Instant::now).elapsed() >= BLOCKED => {
                    self.record(&format!("{title}: blocked: {why}"))?;
                    return Ok(Outcome::Blocked);
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
                self.record(&format!("{title}: the timeout has passed: {last}"))?;
                return Ok(Outcome::TimedOut);
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
