//! `capstan convert`: converts Machines, MachineSets and MachineHealthChecks between the Machine
//! API and Cluster API, and reports what the other API cannot express.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use capstan_core::api::cluster_x_k8s_io::NAMESPACE as CLUSTER_API_NAMESPACE;
use capstan_core::api::cluster_x_k8s_io::annotation::PAUSED;
use capstan_core::api::machine_openshift_io::NAMESPACE as MACHINE_API_NAMESPACE;
use capstan_core::api::{cluster_x_k8s_io, config_openshift_io, infrastructure_cluster_x_k8s_io, machine_openshift_io};
use capstan_core::conversion::{self, Api, Context, Converted, Issue, Lookup, Severity};
use capstan_core::model::FieldPath;
use serde::Serialize;
use serde::ser::{SerializeSeq as _, Serializer as _};
use serde_json::Value;

use super::documents::{self, Document};

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
/// The exit code is 0 if everything was converted without loss, 1 if something was
/// not, and 2 if the input cannot be read. Input without an object to convert is not
/// an error: a note reports it, and the exit code is 0.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  capstan convert --with cluster.yaml machines.yaml | kubectl apply -f -
  kubectl get machines,machinesets -n openshift-machine-api -o yaml \\
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
        if !converted.issues.is_empty() {
            report.missing.extend(others.missing(document));
        }
        report.add(document, &converted);
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

/// The objects that conversions read besides their sources.
struct Others<'d> {
    infrastructure: Option<&'d Value>,
    /// Objects of Cluster API's infrastructure and mirrors, by kind and name.
    by_name: BTreeMap<(Api, &'d str, &'d str), &'d Value>,
    /// By kind, name and namespace.
    infrastructure_objects: BTreeMap<(&'d str, &'d str, &'d str), &'d Document>,
    secrets: Vec<String>,
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

impl<'d> Others<'d> {
    /// # Errors
    /// Two objects of the same kind, namespace and name differ, so that the result would depend on
    /// their order.
    fn new(with: &'d [Document], files: &'d [Document]) -> anyhow::Result<Self> {
        let mut infrastructure: Option<&Document> = None;
        let mut others = Self {
            infrastructure: None,
            by_name: BTreeMap::new(),
            infrastructure_objects: BTreeMap::new(),
            secrets: Vec::new(),
        };
        for document in with.iter().chain(files) {
            let (kind, namespace, name) = document.key();
            match (group(document), kind) {
                (config_openshift_io::GROUP, config_openshift_io::infrastructure::KIND) => {
                    one_of(infrastructure, document)?;
                    infrastructure = Some(document);
                }
                (infrastructure_cluster_x_k8s_io::GROUP, _) => {
                    let known = others.infrastructure_objects.insert((kind, name, namespace), document);
                    one_of(known, document)?;
                }
                ("", "Secret") if namespace == CLUSTER_API_NAMESPACE => others.secrets.push(name.to_owned()),
                _ => {
                    if let Some(api) = conversion::api_of(&document.object) {
                        others.by_name.insert((api, kind, name), &document.object);
                    }
                }
            }
        }
        others.infrastructure = infrastructure.map(|document| &document.object);
        Ok(others)
    }

    /// An infrastructure object. One without a namespace is in every namespace.
    fn infrastructure_object(&self, kind: &str, name: &str, namespace: &str) -> Option<&'d Value> {
        let all = &self.infrastructure_objects;
        let found = all
            .get(&(kind, name, namespace))
            .or_else(|| all.get(&(kind, name, "")))
            .or_else(|| {
                let mut all = all.iter().filter(|_| namespace.is_empty());
                let named = all.find(|((of_kind, of_name, _), _)| *of_kind == kind && *of_name == name);
                named.map(|(_, document)| document)
            });
        found.map(|document| &document.object)
    }

    /// The infrastructure cluster of a kind: the one with the name of the cluster, or the only one.
    fn cluster(&self, kind: &str, name: &str) -> Option<&'d Value> {
        if let Some(named) = self.infrastructure_object(kind, name, CLUSTER_API_NAMESPACE) {
            return Some(named);
        }
        let mut all = self
            .infrastructure_objects
            .iter()
            .filter(|((found, _, _), _)| *found == kind);
        let only = all.next().filter(|_| all.next().is_none());
        only.map(|(_, document)| &document.object)
    }

    /// The kind of the infrastructure cluster that an object belongs to.
    fn cluster_kind(&self, document: &Document) -> Option<&'static str> {
        let of_infrastructure = || conversion::cluster_kind_of_infrastructure(self.infrastructure?);
        conversion::cluster_kind(&document.object).or_else(of_infrastructure)
    }

    /// The kinds of cluster objects that the conversion of an object reads, without those that were
    /// given.
    fn missing(&self, document: &'d Document) -> Vec<&'static str> {
        let mut missing = Vec::new();
        if self.infrastructure.is_none() && conversion::api_of(&document.object) == Some(Api::MachineApi) {
            missing.push(config_openshift_io::infrastructure::KIND);
        }
        let is_missing = |kind: &&str| self.cluster(kind, self.cluster_name(document)).is_none();
        missing.extend(self.cluster_kind(document).filter(is_missing));
        missing
    }

    /// The name of the cluster that an object belongs to.
    fn cluster_name(&self, document: &'d Document) -> &'d str {
        let of_infrastructure = self
            .infrastructure
            .and_then(|object| object.pointer("/status/infrastructureName"))
            .and_then(Value::as_str);
        of_infrastructure.unwrap_or_else(|| document.text("/spec/clusterName"))
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
    let cluster = others.cluster_kind(document);
    let cluster = cluster.and_then(|kind| others.cluster(kind, others.cluster_name(document)));
    let machine = conversion::infrastructure_of(object);
    let machine = machine.and_then(|(kind, name)| others.infrastructure_object(&kind, &name, namespace));
    let owner = document.text("/metadata/ownerReferences/0/name");
    let parent = others.by_name.get(&(from.other(), "MachineSet", owner)).copied();
    let context = Context {
        infrastructure: others.infrastructure.into(),
        infrastructure_cluster: cluster.into(),
        infrastructure_machine: Lookup::from(machine),
        mirror: others.by_name.get(&(from.other(), kind, name)).copied(),
        parent: parent.filter(|parent| parent.pointer("/metadata/uid").is_some()),
        role: None,
        secrets: &others.secrets,
    };
    Some(conversion::convert(object, &context))
}

/// Whether an object, or the template of its machines, has the annotation that pauses it.
fn is_paused(object: &Value) -> bool {
    let of = |path: &str| object.pointer(path).and_then(|annotations| annotations.get(PAUSED));
    of("/metadata/annotations").is_some() || of("/spec/template/metadata/annotations").is_some()
}

/// Whether an object is one of Cluster API with taints, or with taints in its template.
fn has_taints(object: &Value) -> bool {
    let taints = |path: &str| object.pointer(path).and_then(Value::as_array);
    let any = ["/spec/taints", "/spec/template/spec/taints"]
        .into_iter()
        .find_map(taints);
    conversion::api_of(object) == Some(Api::ClusterApi) && any.is_some_and(|taints| !taints.is_empty())
}

/// Refuses two objects of the same kind, namespace and name that differ.
fn one_of(known: Option<&Document>, document: &Document) -> anyhow::Result<()> {
    match known {
        Some(known) if known.object != document.object => bail!(
            "{}: {} differs from {} at {}: the result would depend on their order; give one of them",
            document.place(),
            title(document),
            title(known),
            known.place()
        ),
        _ => Ok(()),
    }
}

/// The namespace of the objects of an API.
fn home(api: Api) -> &'static str {
    match api {
        Api::MachineApi => MACHINE_API_NAMESPACE,
        Api::ClusterApi => CLUSTER_API_NAMESPACE,
    }
}

/// The result for an object of another kind: an issue for a kind of the two APIs that has no
/// counterpart. Every other object is part of the context.
fn unknown_kind(document: &Document) -> Option<Converted> {
    let machine_api = group(document) == machine_openshift_io::GROUP;
    let cluster_api =
        group(document) == cluster_x_k8s_io::GROUP && document.text("/kind") != cluster_x_k8s_io::cluster::KIND;
    (machine_api || cluster_api).then(|| conversion::convert(&document.object, &Context::default()))
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

/// What is reported on standard error.
#[derive(Default)]
struct Report {
    /// The issues.
    text: String,
    /// Objects that were to be converted.
    objects: usize,
    /// Objects that cannot be converted.
    blocked: usize,
    /// Objects that lose values.
    lossy: usize,
    /// Converted objects of Cluster API with taints.
    tainted: usize,
    /// Kinds of cluster objects that objects with issues need, and that were not given.
    missing: BTreeSet<&'static str>,
}

impl Report {
    /// Adds the issues of an object, each with its field, reason and remedy.
    fn add(&mut self, document: &Document, converted: &Converted) {
        for issue in &converted.issues {
            let level = match issue.severity {
                Severity::Blocks => "error",
                Severity::Loses => "warning",
            };
            self.text.push_str(&format!(
                "{level}: {}: {}\n  --> {}\n  reason: {}\n  help: {}\n",
                title(document),
                issue.path,
                document.place(),
                issue.reason,
                issue.way_out
            ));
        }
        self.objects += 1;
        if converted.is_blocked() {
            self.blocked += 1;
            return;
        }
        self.lossy += usize::from(!converted.issues.is_empty());
        self.tainted += usize::from(converted.objects.iter().any(has_taints));
    }

    /// Prints the issues and a summary.
    fn print(&self) {
        let Self {
            text,
            objects,
            blocked,
            lossy,
            tainted,
            missing,
        } = self;
        let mut summary = if *objects == 0 {
            String::from("note: nothing was converted: the input contains no object to convert\n")
        } else if blocked + lossy > 0 {
            format!(
                "note: {} of {objects} objects converted without loss, {lossy} lose values, {blocked} cannot be converted\n",
                objects - blocked - lossy,
            )
        } else {
            String::new()
        };
        if *tainted > 0 {
            summary.push_str(&format!(
                "note: {tainted} of {objects} objects have taints, which Cluster API refuses unless its feature gate \
                 MachineTaintPropagation is on\n"
            ));
        }
        if !missing.is_empty() {
            let kinds: Vec<&str> = missing.iter().copied().collect();
            summary.push_str(&format!(
                "note: these objects of the cluster were not given: {}; pass them with --with\n",
                kinds.join(", ")
            ));
        }
        // If standard error is closed, the issues cannot be reported anywhere.
        let _ignored = std::io::stderr().write_all(format!("{text}{summary}").as_bytes());
    }
}

fn note(text: &str) {
    // If standard error is closed, the note cannot be reported anywhere.
    let _ignored = writeln!(std::io::stderr(), "note: {text}");
}
