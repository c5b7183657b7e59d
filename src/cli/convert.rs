//! `capstan convert`: converts Machines, MachineSets and MachineHealthChecks between the Machine
//! API and Cluster API, and reports what the other API cannot express.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use capstan_core::api::cluster_x_k8s_io::NAMESPACE as CLUSTER_API_NAMESPACE;
use capstan_core::api::cluster_x_k8s_io::annotation::PAUSED;
use capstan_core::api::machine_openshift_io::NAMESPACE as MACHINE_API_NAMESPACE;
use capstan_core::api::machine_openshift_io::label;
use capstan_core::api::{cluster_x_k8s_io, machine_openshift_io};
use capstan_core::conversion::{self, Api, Context, Converted, Issue, Lookup, Severity};
use capstan_core::model::FieldPath;
use serde::Serialize;
use serde::ser::{SerializeSeq as _, Serializer as _};
use serde_json::Value;

use super::documents::{self, Document, note};

mod others;
mod report;

use others::{InfrastructureCluster, Others};
use report::Report;

/// Convert machines between the Machine API and Cluster API.
///
/// FILE is YAML or JSON with one or more documents, or a folder; `-` is standard
/// input. Machines, MachineSets and MachineHealthChecks are converted to the other
/// API. The Infrastructure object, the infrastructure cluster, and the infrastructure
/// of machines of Cluster API are read from the same files and from --with.
///
/// YAML output contains only what was converted without an issue. What the other API
/// cannot express is reported on standard error.
///
/// The result is not paused. Beside an object that it is made from, two APIs act on
/// one instance. `capstan migrate` hands objects over one after the other. To store
/// the result beside its sources, add the annotation cluster.x-k8s.io/paused as below.
///
/// The exit code is 0 if everything was converted without loss, 1 if something was
/// not, and 2 if the input cannot be read. Input without an object to convert is not
/// an error: a note reports it, and the exit code is 0.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  kubectl get infrastructures,awsclusters -A -o yaml > cluster.yaml
  capstan convert --with cluster.yaml machines.yaml \\
    | kubectl annotate --local -f - cluster.x-k8s.io/paused= -o yaml | kubectl apply -f -
  kubectl get machines.machine.openshift.io -n openshift-machine-api -o yaml \\
    | capstan convert --with cluster/ -o json -
  capstan convert --explain placement.tenancy")]
pub struct Args {
    /// The API to convert to. The default is the other API of each object.
    #[arg(long, value_enum)]
    to: Option<Target>,
    /// Other objects that the conversion reads: a file or a folder; may be repeated.
    #[arg(long, value_name = "FILE|DIR")]
    with: Vec<PathBuf>,
    /// Convert objects of which values are lost, and do not count them as failed.
    #[arg(long)]
    allow_loss: bool,
    /// The output format.
    #[arg(short, long, value_enum, default_value = "yaml")]
    output: Output,
    /// Print what becomes of a field on each platform, in both directions.
    #[arg(long, value_name = "FIELD", conflicts_with_all = ["to", "with", "allow_loss", "output", "files"])]
    explain: Option<String>,
    /// The objects to convert.
    #[arg(required_unless_present = "explain", value_name = "FILE")]
    files: Vec<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Target {
    ClusterApi,
    MachineApi,
}

impl Target {
    fn api(self) -> Api {
        match self {
            Self::ClusterApi => Api::ClusterApi,
            Self::MachineApi => Api::MachineApi,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    Yaml,
    Json,
}

/// Converts the objects, prints the results, and reports the issues.
///
/// # Errors
/// An input file cannot be read, or standard output cannot be written.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if let Some(field) = &args.explain {
        return explain(field);
    }
    let inputs = args.with.iter().chain(&args.files);
    if inputs.filter(|path| path.as_os_str() == "-").count() > 1 {
        bail!("standard input (-) must be given at most once; it is given more than once");
    }
    let with = documents::read_all(&args.with)?;
    let files = documents::read_all(&args.files)?;
    let others = Others::new(&with, &files)?;
    let mut report = Report::default();
    let mut given = GivenObjects::default();
    let rows = files.iter().filter_map(|document| {
        let duplicate = given.check(document);
        if matches!(duplicate, Duplicate::Same) {
            return None;
        }
        let mut converted = convert(document, args.to.map(Target::api), &others)?;
        if document.key().2.is_empty() {
            converted.issues.insert(0, nameless_issue());
        }
        if let Duplicate::Other(place) = duplicate {
            converted.objects.clear();
            converted.issues.insert(0, duplicate_issue(&place));
        }
        report.add(document, &converted, &others);
        Some((document, converted))
    });
    // Each object is printed before the next one is converted, so that the results do not add up in
    // memory.
    let mut output = BufWriter::new(std::io::stdout().lock());
    match args.output {
        Output::Json => write_json(rows, &mut output)?,
        Output::Yaml => write_yaml(rows, args.allow_loss, &mut output)?,
    }
    output.flush().context("writing the result")?;
    report.print();
    let failed = report.blocked > 0 || (report.lossy > 0 && !args.allow_loss);
    Ok(if failed { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

fn explain(field: &str) -> anyhow::Result<ExitCode> {
    let answers = conversion::explain(field, None);
    if answers.is_empty() {
        note(&format!(
            "no rule knows the field {field:?}: a value in it is reported, and blocks the conversion"
        ));
        return Ok(ExitCode::from(1));
    }
    let text: String = answers.iter().map(|answer| format!("{answer}\n")).collect();
    std::io::stdout()
        .write_all(text.as_bytes())
        .context("writing the result")?;
    Ok(ExitCode::SUCCESS)
}

/// The group of an object; empty for a core kind.
fn group(document: &Document) -> &str {
    let version = document.text("/apiVersion");
    version.split_once('/').map_or("", |(group, _)| group)
}

/// Whether an object was given before.
enum Duplicate {
    /// It is the first one.
    First,
    /// It was given before with the same content.
    Same,
    /// It was given before with other content, at this place.
    Other(String),
}

/// The objects to convert that were read so far. Both namespaces of an API convert to one, so that
/// objects that differ only in the namespace would overwrite each other.
#[derive(Default)]
struct GivenObjects<'d> {
    by_name: BTreeMap<(&'d str, &'d str, &'d str), &'d Document>,
}

impl<'d> GivenObjects<'d> {
    fn check(&mut self, document: &'d Document) -> Duplicate {
        let (kind, _, name) = document.key();
        if name.is_empty() || conversion::api_of(&document.object).is_none() {
            return Duplicate::First;
        }
        match self.by_name.entry((group(document), kind, name)) {
            Entry::Vacant(entry) => {
                entry.insert(document);
                Duplicate::First
            }
            Entry::Occupied(entry) if entry.get().object == document.object => {
                note(&format!(
                    "{}: {} is given more than once and is converted once",
                    document.place(),
                    title(document)
                ));
                Duplicate::Same
            }
            Entry::Occupied(entry) => Duplicate::Other(format!("{} at {}", title(entry.get()), entry.get().place())),
        }
    }
}

/// The issue of an object without a name. An API server generates names, and an offline conversion
/// cannot know them.
fn nameless_issue() -> Issue {
    Issue {
        severity: Severity::Blocks,
        path: FieldPath::new("metadata.name"),
        reason: String::from("the converted objects have the name of this one, and it has none"),
        way_out: String::from("set it"),
    }
}

/// The issue of an object that was given before with other content.
fn duplicate_issue(place: &str) -> Issue {
    Issue {
        severity: Severity::Blocks,
        path: FieldPath::new("metadata.name"),
        reason: format!("the converted object would overwrite that of {place}"),
        way_out: String::from("give one of them, or rename one of them"),
    }
}

/// Converts a document. `None` for an object that is not to be converted: it is part of the
/// context, or in the target API already.
fn convert<'d>(document: &'d Document, to: Option<Api>, others: &Others<'d>) -> Option<Converted> {
    let object = &document.object;
    let Some(from) = conversion::api_of(object) else {
        return unknown_kind(document);
    };
    if to == Some(from) {
        note(&format!(
            "{}: {} is in the target API already and is not converted",
            document.place(),
            title(document)
        ));
        return None;
    }
    let (kind, namespace, name) = document.key();
    if !namespace.is_empty() && namespace != home(from) {
        note(&format!(
            "{}: {} is not in the namespace {}, and its counterpart is created in {}",
            document.place(),
            title(document),
            home(from),
            home(from.other())
        ));
    }
    if object
        .pointer("/metadata/deletionTimestamp")
        .is_some_and(|time| !time.is_null())
    {
        note(&format!(
            "{}: {} is being deleted; the converted object is not",
            document.place(),
            title(document)
        ));
    }
    if is_paused(object) {
        note(&format!(
            "{}: {} is paused with the annotation {PAUSED}; the converted object is not: add the annotation before you \
             apply the object if it must stay paused",
            document.place(),
            title(document)
        ));
    }
    let (cluster, several) = match others.cluster(document) {
        InfrastructureCluster::Absent => (Lookup::Absent, None),
        InfrastructureCluster::One(cluster) => (Lookup::Found(cluster), None),
        InfrastructureCluster::Several { kind, names } => {
            let of_machines = conversion::cluster_kind(object).is_some();
            let issue = || several_issue(kind, &names, from, others.cluster_name(document));
            (Lookup::Unknown, of_machines.then(issue))
        }
    };
    let machine = conversion::infrastructure_of(object);
    let machine = machine.and_then(|(kind, name)| others.infrastructure_object(&kind, &name, namespace));
    let owner = document.text("/metadata/ownerReferences/0/name");
    let parent = others.by_name.get(&(from.other(), "MachineSet", owner)).copied();
    let context = Context {
        infrastructure: others.infrastructure.into(),
        infrastructure_cluster: cluster,
        infrastructure_machine: Lookup::from(machine),
        mirror: others.by_name.get(&(from.other(), kind, name)).copied(),
        parent: parent.filter(|parent| parent.pointer("/metadata/uid").is_some()),
        role: None,
        secrets: &others.secrets,
    };
    let mut converted = conversion::convert(object, &context);
    converted.issues.extend(several);
    Some(converted)
}

/// The issue of an object whose infrastructure cluster is one of several, and not known.
fn several_issue(kind: &str, names: &[&str], from: Api, cluster: &str) -> Issue {
    let path = match from {
        Api::MachineApi => FieldPath::new("metadata.labels").key(label::CLUSTER),
        Api::ClusterApi => FieldPath::new("spec.clusterName"),
    };
    let (number, names) = (names.len(), names.join(", "));
    let reason = match cluster {
        "" => format!("{number} {kind}s were given: {names}; the name of the cluster is not known"),
        cluster => format!("{number} {kind}s were given: {names}; none has the name of the cluster, {cluster:?}"),
    };
    Issue {
        severity: Severity::Blocks,
        path,
        reason,
        way_out: format!("give only the {kind} of the cluster, or also its Infrastructure"),
    }
}

/// Whether an object, or the template of its machines, has the annotation that pauses it.
fn is_paused(object: &Value) -> bool {
    let of = |path: &str| object.pointer(path).and_then(|annotations| annotations.get(PAUSED));
    of("/metadata/annotations").is_some() || of("/spec/template/metadata/annotations").is_some()
}

/// The namespace of the objects of an API.
fn home(api: Api) -> &'static str {
    match api {
        Api::MachineApi => MACHINE_API_NAMESPACE,
        Api::ClusterApi => CLUSTER_API_NAMESPACE,
    }
}

/// The result for an object of another kind: an issue for a kind of the two APIs that has no
/// counterpart, and for a misspelt group. Every other object is part of the context.
fn unknown_kind(document: &Document) -> Option<Converted> {
    let machine_api = group(document) == machine_openshift_io::GROUP;
    let cluster_api =
        group(document) == cluster_x_k8s_io::GROUP && document.text("/kind") != cluster_x_k8s_io::cluster::KIND;
    let misspelt = conversion::misspelt_group(&document.object).is_some();
    (machine_api || cluster_api || misspelt).then(|| conversion::convert(&document.object, &Context::default()))
}

fn title(document: &Document) -> String {
    let (kind, namespace, name) = document.key();
    if name.is_empty() {
        format!("{kind} without a name")
    } else if namespace.is_empty() {
        format!("{kind} {name}")
    } else {
        format!("{kind} {namespace}/{name}")
    }
}

/// The result for an object, as JSON output contains it.
#[derive(Serialize)]
struct Row<'a> {
    issues: Vec<RowIssue<'a>>,
    objects: &'a [Value],
    source: RowSource<'a>,
}

/// An issue, as JSON output contains it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RowIssue<'a> {
    path: &'a str,
    reason: &'a str,
    severity: &'static str,
    way_out: &'a str,
}

/// The object that was converted, as JSON output names it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RowSource<'a> {
    api_version: &'a str,
    kind: &'a str,
    name: &'a str,
    namespace: &'a str,
}

impl<'a> Row<'a> {
    fn new(document: &'a Document, converted: &'a Converted) -> Self {
        let (kind, namespace, name) = document.key();
        let issues = converted.issues.iter().map(|issue| RowIssue {
            path: issue.path.as_str(),
            reason: &issue.reason,
            severity: issue.severity.as_str(),
            way_out: &issue.way_out,
        });
        Self {
            issues: issues.collect(),
            objects: &converted.objects,
            source: RowSource {
                api_version: document.text("/apiVersion"),
                kind,
                name,
                namespace,
            },
        }
    }
}

/// Writes the results as a JSON array.
fn write_json<'d>(
    rows: impl Iterator<Item = (&'d Document, Converted)>,
    output: &mut impl Write,
) -> anyhow::Result<()> {
    const STEP: &str = "writing the result as JSON";
    let mut serializer = serde_json::Serializer::pretty(&mut *output);
    let mut list = serializer.serialize_seq(None).context(STEP)?;
    for (document, converted) in rows {
        list.serialize_element(&Row::new(document, &converted)).context(STEP)?;
    }
    list.end().context(STEP)?;
    output.write_all(b"\n").context(STEP)
}

/// Writes the converted objects as YAML documents, without their status, which `kubectl apply`
/// ignores.
fn write_yaml<'d>(
    rows: impl Iterator<Item = (&'d Document, Converted)>,
    allow_loss: bool,
    output: &mut impl Write,
) -> anyhow::Result<()> {
    for (_, converted) in rows {
        let complete = if allow_loss {
            !converted.is_blocked()
        } else {
            converted.issues.is_empty()
        };
        for mut object in converted.objects.into_iter().filter(|_| complete) {
            if let Some(fields) = object.as_object_mut() {
                fields.remove("status");
            }
            let document = serde_saphyr::to_string(&object).context("writing the result as YAML")?;
            let end = if document.ends_with('\n') { "" } else { "\n" };
            write!(output, "---\n{document}{end}").context("writing the result")?;
        }
    }
    Ok(())
}
