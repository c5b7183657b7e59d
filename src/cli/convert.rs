//! `capstan convert`: converts Machines, MachineSets and MachineHealthChecks between the Machine
//! API and Cluster API, and reports what the other API cannot express.

use std::collections::BTreeMap;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use capstan_core::api::cluster_x_k8s_io::NAMESPACE as CLUSTER_API_NAMESPACE;
use capstan_core::api::{cluster_x_k8s_io, config_openshift_io, infrastructure_cluster_x_k8s_io, machine_openshift_io};
use capstan_core::conversion::{self, Api, Context, Converted, Lookup, Severity};
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
    let others = Others::new(&with, &files);
    let mut report = Report::default();
    let rows = files.iter().filter_map(|document| {
        let converted = convert(document, args.to.map(Target::api), &others)?;
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
    infrastructure_objects: BTreeMap<(&'d str, &'d str), &'d Value>,
    secrets: Vec<String>,
}

impl<'d> Others<'d> {
    fn new(with: &'d [Document], files: &'d [Document]) -> Self {
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
                    others.infrastructure.get_or_insert(&document.object);
                }
                (infrastructure_cluster_x_k8s_io::GROUP, _) => {
                    others.infrastructure_objects.insert((kind, name), &document.object);
                }
                ("", "Secret") if namespace == CLUSTER_API_NAMESPACE => others.secrets.push(name.to_owned()),
                _ => {
                    if let Some(api) = conversion::api_of(&document.object) {
                        others.by_name.insert((api, kind, name), &document.object);
                    }
                }
            }
        }
        others
    }

    /// The infrastructure cluster of a kind: the one with the name of the cluster, or the only one.
    fn cluster(&self, kind: &str, name: &str) -> Option<&'d Value> {
        if let Some(named) = self.infrastructure_objects.get(&(kind, name)) {
            return Some(named);
        }
        let mut all = self
            .infrastructure_objects
            .iter()
            .filter(|((found, _), _)| *found == kind);
        let only = all.next().filter(|_| all.next().is_none());
        only.map(|(_, object)| *object)
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
    let (kind, _, name) = document.key();
    let cluster = conversion::cluster_kind(object).and_then(|kind| others.cluster(kind, others.cluster_name(document)));
    let machine = conversion::infrastructure_of(object);
    let machine = machine.and_then(|(kind, name)| {
        let found = others.infrastructure_objects.get(&(kind.as_str(), name.as_str()));
        found.copied()
    });
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
    if namespace.is_empty() {
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
        } else if !converted.issues.is_empty() {
            self.lossy += 1;
        }
    }

    /// Prints the issues and a summary.
    fn print(&self) {
        let Self {
            text,
            objects,
            blocked,
            lossy,
        } = self;
        let summary = if *objects == 0 {
            String::from("note: nothing was converted: the input contains no object to convert\n")
        } else if blocked + lossy > 0 {
            format!(
                "note: {} of {objects} objects converted without loss, {lossy} lose values, {blocked} cannot be converted\n",
                objects - blocked - lossy,
            )
        } else {
            String::new()
        };
        // If standard error is closed, the issues cannot be reported anywhere.
        let _ignored = std::io::stderr().write_all(format!("{text}{summary}").as_bytes());
    }
}

fn note(text: &str) {
    // If standard error is closed, the note cannot be reported anywhere.
    let _ignored = writeln!(std::io::stderr(), "note: {text}");
}
