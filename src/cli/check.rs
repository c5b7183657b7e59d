//! `capstan check`: gives the verdict of a cluster offline.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use capstan_core::admission::{Admission, Check, Checked, Checker, Options, Snapshot};
use capstan_core::api::cluster_x_k8s_io::machine_pool;
use capstan_core::api::controlplane_cluster_x_k8s_io::kubeadm_control_plane;
use capstan_core::api::machine_openshift_io::{NAMESPACE, control_plane, control_plane_machine_set};
use capstan_core::api::{cluster_x_k8s_io, infrastructure_cluster_x_k8s_io, machine_openshift_io};
use capstan_core::model::{Operation, Propagation, User, Violation, Warning, has_link, refusal_link, rule_link};
use serde_json::{Value, json};

use super::cluster::{Authority, feature_gate, namespace};
use super::documents::{self, Document, note};
use super::output::{pretty, yaml};

mod sarif;

/// Check objects as a cluster does: against the CRD schemas, then by the webhooks.
///
/// Capstan contains the schemas of its own CRDs: ControlPlaneMachineSet, ControlPlane,
/// KubeadmControlPlane and its template. Objects of other kinds are checked by the
/// webhooks only.
///
/// FILE is YAML or JSON with one or more documents; `-` is standard input. Each
/// object is checked as a creation. With --old, it is checked as an update of the
/// object with the same kind, namespace and name in that file. --with provides the
/// objects that rules look up (Machines, Infrastructure, FeatureGate, ...). A rule
/// whose objects are not given causes a warning, and with --strict the exit code 1. An
/// empty list of a kind, such as a ControlPlaneMachineSetList without items, tells that
/// there are none; `kubectl get --raw` prints it, and `kubectl get -o yaml` does not. The
/// objects of a folder are given to each other, and so are the objects of a file that
/// have different kinds. A Scale (autoscaling/v1) is checked with the control plane of
/// its name and namespace in --old or --with. An object that differs from --old in its
/// status only is checked as an update of the status.
///
/// The exit code is 0 if all objects are allowed, 1 if one is refused, and 2 if the
/// input cannot be read or contains no object.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  capstan check set.yaml
  capstan check --old before.yaml --with machines.yaml after.yaml
  kubectl get cpms cluster -n openshift-machine-api -o yaml \\
    | capstan check --operation delete --propagation foreground -")]
pub struct Args {
    /// The current objects, for an update.
    #[arg(long, value_name = "FILE")]
    old: Vec<PathBuf>,
    /// Objects that rules look up: a file or a folder; may be repeated.
    #[arg(long, value_name = "FILE|DIR")]
    with: Vec<PathBuf>,
    /// The operation. The default is `update` with --old, otherwise `create`.
    #[arg(long, value_enum)]
    operation: Option<OperationArg>,
    /// The propagation policy of a deletion.
    #[arg(long, value_enum)]
    propagation: Option<PropagationArg>,
    /// The user who makes the request, with groups.
    #[arg(long = "as", value_name = "USER[,GROUP...]", value_parser = user)]
    user: Option<User>,
    /// Override feature gates, for example CPMSRecreate=true, separated by commas.
    #[arg(long, value_name = "NAME=true|false", value_delimiter = ',', value_parser = feature_gate)]
    feature_gates: Vec<(String, bool)>,
    /// Namespace of the Machine API. An object without a namespace is taken to be in
    /// the namespace of its API.
    #[arg(short, long, default_value = NAMESPACE, value_name = "NAMESPACE", value_parser = namespace)]
    namespace: String,
    #[command(flatten)]
    authority: Authority,
    /// Also exit with 1 if a rule was skipped, because an object that it needs was not
    /// given or Capstan has no rules for the kind.
    #[arg(long)]
    strict: bool,
    /// The output format.
    #[arg(short, long, value_enum, default_value = "text")]
    output: Output,
    /// The objects to check.
    #[arg(required = true, value_name = "FILE|DIR")]
    files: Vec<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum OperationArg {
    Create,
    Update,
    Delete,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum PropagationArg {
    Foreground,
    Background,
    Orphan,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    Text,
    Json,
    Yaml,
    Sarif,
}

fn user(text: &str) -> Result<User, String> {
    let mut parts = text.split(',');
    let name = parts
        .next()
        .filter(|name| !name.is_empty())
        .ok_or("must be USER[,GROUP...]")?;
    Ok(User::named(name, parts.map(str::to_owned).collect()))
}

/// One document with its verdict.
struct Row {
    document: Document,
    operation: Operation,
    checked: Checked,
}

/// Checks the objects and prints the verdicts. The exit code tells whether all are allowed.
///
/// # Errors
/// An input file cannot be read.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let options = Options {
        feature_gates: args.feature_gates.iter().cloned().collect(),
        authority: args.authority.config(&args.namespace),
        namespace: args.namespace.clone(),
        ..Options::default()
    };
    let admission = Admission::new(options).context("loading the built-in rules")?;
    let checker = Checker::new(admission).context("loading the built-in schemas")?;
    if args.propagation.is_some() && args.operation != Some(OperationArg::Delete) {
        bail!("--propagation must be given with --operation delete only: no other operation has a propagation policy");
    }
    let inputs = args.old.iter().chain(&args.with).chain(&args.files);
    if inputs.filter(|path| path.as_os_str() == "-").count() > 1 {
        bail!("standard input (-) must be given at most once; it is given more than once");
    }
    if args.operation == Some(OperationArg::Delete) && !args.old.is_empty() {
        note("--old is not read for --operation delete: the objects to check are the stored ones");
    }
    let inputs = Inputs::read(args)?;
    let user = args.user.clone().unwrap_or_default();
    let mut rows = Vec::new();
    let mut given = documents::snapshot(&inputs.with)?;
    given.keep_machines_of(&args.namespace);
    for group in &inputs.groups {
        let kinds = group.snapshots_by_kind(&given);
        for (position, document) in group.documents.iter().enumerate() {
            let snapshot = match kinds.get(&kind_of(document)) {
                Some(snapshot) => Cow::Borrowed(snapshot),
                None => group.snapshot_around(position, &given),
            };
            rows.push(check(args, &checker, &inputs, document, &snapshot, &user)?);
        }
    }
    let text = match args.output {
        Output::Text => rows.iter().map(as_text).collect::<String>(),
        Output::Json => pretty(&as_values(&rows))?,
        Output::Yaml => yaml(&as_values(&rows))?,
        Output::Sarif => pretty(&sarif::report(&rows, &checker.admission().table()))?,
    };
    std::io::stdout()
        .write_all(text.as_bytes())
        .context("writing the result")?;
    if rows.is_empty() {
        bail!("the input must contain an object to check; it contains none");
    }
    let refused = rows.iter().any(|row| row.checked.status.is_some());
    let skipped = rows.iter().filter(|row| skipped(row).next().is_some()).count();
    if args.strict && skipped > 0 {
        note(&format!(
            "--strict: rules were skipped for {skipped} object(s); the warnings with \"not checked\" name what is missing"
        ));
    }
    let failed = refused || (args.strict && skipped > 0);
    Ok(if failed { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

/// The warnings of rules that did not judge the object.
fn skipped(row: &Row) -> impl Iterator<Item = &Warning> {
    row.checked.warnings.iter().filter(|warning| warning.not_judged)
}

/// The objects of the command line.
struct Inputs {
    old: Vec<Document>,
    with: Vec<Document>,
    /// The objects to check, by file or folder.
    groups: Vec<Group>,
}

/// The objects of one argument.
struct Group {
    documents: Vec<Document>,
    is_folder: bool,
    /// A snapshot of each object. It is empty for an object of --with, and for an object that does
    /// not have the types of its kind, which is refused when it is checked.
    snapshots: Vec<Snapshot>,
}

impl Group {
    fn read(path: &PathBuf, with: &[Document], namespace: &str) -> anyhow::Result<Self> {
        let is_folder = path.is_dir();
        let mut documents = documents::read_all(std::slice::from_ref(path))?;
        if is_folder {
            documents = documents::distinct(documents)?;
        }
        let given: BTreeSet<[&str; 4]> = with.iter().map(Document::identity).collect();
        let snapshot = |document: &Document| {
            if given.contains(&document.identity()) {
                return Snapshot::default();
            }
            let snapshot = Snapshot::of_files(std::slice::from_ref(&document.object));
            let mut snapshot = snapshot.unwrap_or_default();
            snapshot.keep_machines_of(namespace);
            snapshot
        };
        Ok(Self {
            snapshots: documents.iter().map(snapshot).collect(),
            documents,
            is_folder,
        })
    }

    /// The objects that a Scale may be about: those of a folder, and those of the file of the
    /// Scale. A file may contain variants of one object, and then it does not tell which one is
    /// stored.
    fn scaled_by(&self, scale: &Document) -> Vec<&Document> {
        let is_near = self.is_folder || self.documents.iter().any(|document| document.file == scale.file);
        let near = self.documents.iter().filter(|_| is_near);
        let of: Vec<&Document> = near.filter(|object| is_scaled_by(object, scale)).collect();
        let is_variant =
            |one: &Document, other: &Document| one.identity() == other.identity() && one.object != other.object;
        let is_stored = |object: &&&Document| !of.iter().any(|other| is_variant(object, other));
        of.iter().filter(is_stored).copied().collect()
    }

    /// What the rules of the objects of each kind of a file look up: the given objects, and the
    /// objects of the file that have another kind. A file may contain variants of one object, so
    /// that objects of one kind are not given to each other. Empty for a folder.
    fn snapshots_by_kind(&self, given: &Snapshot) -> BTreeMap<[String; 2], Snapshot> {
        if self.is_folder {
            return BTreeMap::new();
        }
        let kinds: BTreeSet<[String; 2]> = self.documents.iter().map(kind_of).collect();
        let around = |kind: &[String; 2]| {
            let mut snapshot = given.clone();
            for (document, added) in self.documents.iter().zip(&self.snapshots) {
                if kind_of(document) != *kind {
                    snapshot.add(added);
                }
            }
            snapshot
        };
        kinds.into_iter().map(|kind| (kind.clone(), around(&kind))).collect()
    }

    /// What the rules of the object at this position look up: the given objects, and the other
    /// objects of its folder that are not among them.
    fn snapshot_around<'s>(&self, position: usize, given: &'s Snapshot) -> Cow<'s, Snapshot> {
        let mut snapshot = given.clone();
        for (other, added) in self.snapshots.iter().enumerate() {
            if other != position {
                snapshot.add(added);
            }
        }
        Cow::Owned(snapshot)
    }
}

impl Inputs {
    fn read(args: &Args) -> anyhow::Result<Self> {
        let with = documents::read_surroundings(&args.with)?;
        let mut old = Vec::new();
        for path in &args.old {
            let stored = documents::read_surroundings(std::slice::from_ref(path))?;
            // An empty file is the output of a command that failed (W182).
            if stored.is_empty() {
                bail!("--old {} must contain an object; it contains none", path.display());
            }
            old.extend(stored);
        }
        let groups = args.files.iter();
        let groups = groups.map(|path| Group::read(path, &with, &args.namespace));
        Ok(Self {
            old: documents::distinct(old)?,
            groups: groups.collect::<anyhow::Result<_>>()?,
            with,
        })
    }
}

/// Checks one object.
fn check(
    args: &Args,
    checker: &Checker,
    inputs: &Inputs,
    document: &Document,
    snapshot: &Snapshot,
    user: &User,
) -> anyhow::Result<Row> {
    let before = if is_scale(document) {
        scaled_by(document, inputs)
    } else {
        let mut old = inputs.old.iter();
        old.find(|old| identity(old, args) == identity(document, args))
    };
    if let (true, Some(OperationArg::Create | OperationArg::Delete)) = (is_scale(document), args.operation) {
        bail!(
            "{}: document at line {}: a Scale is only updated; --operation must be update, or be left out",
            document.file,
            document.line
        );
    }
    let operation = match args.operation {
        Some(OperationArg::Create) => Operation::Create,
        Some(OperationArg::Update) => Operation::Update,
        Some(OperationArg::Delete) => Operation::Delete,
        None if before.is_some() => Operation::Update,
        None => Operation::Create,
    };
    if operation == Operation::Update && before.is_none() {
        let (kind, namespace, name) = document.key();
        bail!(
            "{}: document at line {}: an update of {kind} {namespace}/{name} needs the current object; pass it with --old",
            document.file,
            document.line
        );
    }
    if args.operation.is_none() && before.is_none() && !args.old.is_empty() {
        let missing = match is_scale(document) {
            true => "control plane of this name and namespace, so the Scale is not checked",
            false => "object of this kind, namespace, and name, so this one is checked as a creation",
        };
        note(&format!("{}: --old holds no {missing}", document.place()));
    }
    let check = Check {
        operation,
        object: &document.object,
        old: before
            .filter(|_| operation == Operation::Update)
            .map(|before| &before.object),
        propagation: args.propagation.map(|propagation| match propagation {
            PropagationArg::Foreground => Propagation::Foreground,
            PropagationArg::Background => Propagation::Background,
            PropagationArg::Orphan => Propagation::Orphan,
        }),
        user,
    };
    Ok(Row {
        document: document.clone(),
        operation,
        checked: checker.check(&check, snapshot),
    })
}

/// The group and the kind of an object.
fn kind_of(document: &Document) -> [String; 2] {
    let [group, kind, ..] = document.identity();
    [group.to_owned(), kind.to_owned()]
}

/// The identity of an object: group, kind, namespace, name. An object without a namespace belongs
/// to the namespace of its API.
fn identity<'a>(document: &'a Document, args: &'a Args) -> (&'a str, &'a str, &'a str, &'a str) {
    let (kind, namespace, name) = document.key();
    let group = document
        .text("/apiVersion")
        .split_once('/')
        .map_or("", |(group, _)| group);
    let namespace = match group {
        _ if !namespace.is_empty() => namespace,
        machine_openshift_io::GROUP => &args.namespace,
        cluster_x_k8s_io::GROUP | infrastructure_cluster_x_k8s_io::GROUP => &args.authority.cluster_api_namespace,
        _ => namespace,
    };
    (group, kind, namespace, name)
}

/// Whether a document is a Scale, which an update of the subresource `scale` sends.
fn is_scale(document: &Document) -> bool {
    document.text("/apiVersion") == "autoscaling/v1" && document.key().0 == "Scale"
}

/// The control plane of a Scale. A Scale does not name its kind: an object of --old takes
/// precedence, and then a ControlPlane, because a set beside it has no controller.
fn scaled_by<'a>(scale: &Document, inputs: &'a Inputs) -> Option<&'a Document> {
    let of = |object: &&Document| is_scaled_by(object, scale);
    let siblings = inputs.groups.iter().flat_map(|group| group.scaled_by(scale));
    let mut candidates: Vec<&Document> = inputs.old.iter().filter(of).collect();
    if candidates.is_empty() {
        candidates.extend(inputs.with.iter().filter(of).chain(siblings));
    }
    let kinds = [control_plane::KIND, kubeadm_control_plane::KIND];
    let is_exact = |object: &Document| !scale.key().1.is_empty() && object.key().1 == scale.key().1;
    let order = |object: &&&Document| {
        let kind = kinds.iter().position(|kind| *kind == object.key().0);
        (kind.unwrap_or(kinds.len()), !is_exact(object))
    };
    let chosen = *candidates.iter().min_by_key(order)?;
    let of_kind = |other: &&&Document| other.key().0 == chosen.key().0;
    let elsewhere = |other: &&&Document| !is_exact(chosen) && other.key().1 != chosen.key().1;
    if let Some(other) = candidates.iter().filter(of_kind).find(elsewhere) {
        note(&format!(
            "{}: the Scale has no namespace, or its {} has none, and may be that of {} or of {}; give the namespaces",
            scale.place(),
            chosen.key().0,
            chosen.place(),
            other.place()
        ));
        return None;
    }
    let others = candidates.iter().filter(|other| !of_kind(other));
    for other in others {
        note(&format!(
            "{}: the Scale is checked as that of the {} {}, and not of the {}; --old selects another one",
            scale.place(),
            chosen.key().0,
            chosen.key().2,
            other.key().0
        ));
    }
    Some(chosen)
}

/// Whether an object is the control plane with the name and namespace of a Scale.
fn is_scaled_by(object: &Document, scale: &Document) -> bool {
    let (kind, namespace, name) = object.key();
    let (_, scale_namespace, scale_name) = scale.key();
    let same_namespace = [scale_namespace, namespace].contains(&"") || namespace == scale_namespace;
    let kinds = [
        kubeadm_control_plane::KIND,
        control_plane::KIND,
        control_plane_machine_set::KIND,
        machine_pool::KIND,
    ];
    kinds.contains(&kind) && name == scale_name && same_namespace
}

/// The objects that rules look up.
///
/// # Errors
/// A file cannot be read, or an object does not have the types of its kind.
pub fn snapshot(paths: &[PathBuf]) -> anyhow::Result<Snapshot> {
    documents::snapshot(&documents::read_distinct(paths)?)
}

fn operation_word(operation: Operation) -> String {
    operation.as_str().to_lowercase()
}

fn as_text(row: &Row) -> String {
    let (kind, namespace, name) = row.document.key();
    let place = if namespace.is_empty() {
        name.to_owned()
    } else {
        format!("{namespace}/{name}")
    };
    let verdict = match &row.checked.status {
        None => String::from("allowed"),
        Some(status) => format!("refused ({} {})", status.code, status.reason),
    };
    let mut text = format!("{kind} {place} ({}): {verdict}\n", operation_word(row.operation));
    match &row.checked.status {
        Some(status) if row.checked.violations.is_empty() => text.push_str(&format!("  {}\n", status.message)),
        _ => {
            let is_hint = |violation: &&Violation| !violation.has_field();
            let violations = &row.checked.violations;
            for violation in violations.iter().filter(|violation| !is_hint(violation)) {
                text.push_str(&format!("  {violation}\n"));
            }
            for hint in violations.iter().filter(is_hint) {
                text.push_str(&format!("  {}\n", hint.plainly()));
            }
            if let Some(link) = refusal_link(violations) {
                text.push_str(&format!("  see {link}\n"));
            }
        }
    }
    for warning in &row.checked.warnings {
        text.push_str(&format!("  warning: {} [{}]\n", warning.text, warning.rule));
    }
    text
}

fn as_values(rows: &[Row]) -> Value {
    Value::from(rows.iter().map(as_json).collect::<Vec<_>>())
}

/// The link of each rule that refuses the object or warns of it.
fn links(row: &Row) -> BTreeMap<&str, String> {
    let violations = row.checked.violations.iter().map(|violation| &violation.rule);
    let rules = violations.chain(row.checked.warnings.iter().map(|warning| &warning.rule));
    let rules = rules.filter(|rule| has_link(rule));
    rules.map(|rule| (rule.as_str(), rule_link(rule))).collect()
}

fn as_json(row: &Row) -> Value {
    let (kind, namespace, name) = row.document.key();
    let causes: Vec<Value> = row
        .checked
        .violations
        .iter()
        .map(|violation| {
            json!({
                "field": violation.path.as_str(),
                "reason": violation.kind.reason(),
                "message": violation.detail(),
                "rule": violation.rule,
            })
        })
        .collect();
    let status = row.checked.status.as_ref();
    json!({
        "kind": kind,
        "namespace": namespace,
        "name": name,
        "operation": operation_word(row.operation),
        "allowed": status.is_none(),
        "code": status.map_or(200, |status| status.code),
        "reason": status.map_or("", |status| status.reason),
        "message": status.map_or("", |status| status.message.as_str()),
        "causes": causes,
        "links": links(row),
        "skipped": skipped(row).map(|warning| json!({"rule": warning.rule, "why": warning.text})).collect::<Vec<_>>(),
        "warnings": row.checked.warnings.iter().map(|warning| warning.text.as_str()).collect::<Vec<_>>(),
        "patch": row.checked.patch.as_ref().map_or_else(|| json!([]), |patch| json!(patch)),
    })
}
