//! Reads files of Kubernetes objects for the offline commands: YAML or JSON, one or more documents,
//! `-` for standard input. The items of a `List` become separate objects. An error names the file,
//! the document and the line.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail, ensure};
use capstan_core::admission::{Snapshot, mistyped_kind};
use capstan_core::api::meta::ObjectMeta;
use capstan_core::kcp::observed::ETCD_MEMBERS;
use serde_json::Value;

mod unique;

use super::output::plain;
use unique::Unique;

/// An object with its place in a file.
#[derive(Clone, Debug)]
pub struct Document {
    /// The file name as the user gave it; `-` for standard input.
    pub file: String,
    /// The first line of the document, from 1; 0 for an object that is not from a file.
    pub line: usize,
    /// The object.
    pub object: Value,
}

impl Document {
    /// The string at a JSON pointer of the object; empty if it is absent.
    pub fn text(&self, pointer: &str) -> &str {
        self.object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    /// The file and the line, for messages.
    pub fn place(&self) -> String {
        match self.line {
            0 => self.file.clone(),
            line => format!("{}: document at line {line}", self.file),
        }
    }

    /// The API group, kind, namespace and name of the object.
    pub fn identity(&self) -> [&str; 4] {
        let (kind, namespace, name) = self.key();
        let group = self.text("/apiVersion").split_once('/').map_or("", |(group, _)| group);
        [group, kind, namespace, name]
    }

    /// Whether it is a list of a kind, such as a NodeList, without items.
    fn is_empty_list(&self) -> bool {
        let items = self.object.get("items").and_then(Value::as_array);
        self.text("/kind").ends_with("List") && items.is_some_and(Vec::is_empty)
    }

    /// The kind and the name of the object, for messages.
    fn title(&self) -> String {
        let (kind, namespace, name) = self.key();
        let slash = if namespace.is_empty() { "" } else { "/" };
        format!("{kind} {namespace}{slash}{name}")
    }

    /// The kind, namespace and name of the object.
    pub fn key(&self) -> (&str, &str, &str) {
        (
            self.text("/kind"),
            self.text("/metadata/namespace"),
            self.text("/metadata/name"),
        )
    }
}

/// Reads files. For a folder, reads all its `.yaml`, `.yml` and `.json` files in the order of their
/// names, and notes the subfolders that it does not read.
///
/// # Errors
/// A file cannot be read, a folder has none, or a document is not a Kubernetes object. The error
/// names all such files and documents.
pub fn read_all(paths: &[PathBuf]) -> anyhow::Result<Vec<Document>> {
    let mut documents = read_with_lists(paths)?;
    documents.retain(|document| !document.is_empty_list());
    Ok(documents)
}

/// Reads files whose objects rules look up, as [`read_distinct`]. An empty list of a kind, such as
/// a NodeList, is kept: it tells that there is no such object.
///
/// # Errors
/// As for [`read_distinct`].
pub fn read_surroundings(paths: &[PathBuf]) -> anyhow::Result<Vec<Document>> {
    distinct(recognizable(read_with_lists(paths)?)?)
}

/// The kinds whose objects are planned, and the Machine. Others may lack a name: an EtcdMembers has
/// none.
const NAMED: [&str; 3] = ["Machine", "KubeadmControlPlane", "MachinePool"];

/// The kinds of machines, and of their owners.
const OWNERS: [&str; 5] = [
    "Machine",
    "ControlPlaneMachineSet",
    "ControlPlane",
    "KubeadmControlPlane",
    "MachinePool",
];

/// Refuses objects that no API server stores, and that would be left out without a word: a known
/// kind in other letters, and a name that is no text.
fn recognizable(documents: Vec<Document>) -> anyhow::Result<Vec<Document>> {
    let mut errors = Vec::new();
    for document in &documents {
        let [group, kind, ..] = document.identity();
        if let Some(reason) = mistyped_kind(group, kind, document.text("/apiVersion")) {
            errors.push(format!("{}: {reason}", document.place()));
        }
        let name = document.object.pointer("/metadata/name");
        // The API server completes a generated name.
        let is_named = name.is_some_and(|name| !name.is_null() && name != "");
        if NAMED.contains(&kind) && !is_named && document.text("/metadata/generateName").is_empty() {
            errors.push(format!(
                "{}: metadata.name of the {kind} is missing; add it",
                document.place()
            ));
        }
        if let Some(name) = name.filter(|name| !name.is_string() && !name.is_null()) {
            errors.push(format!(
                "{}: metadata.name must be a text, and is {name}; put it in quotes",
                document.place()
            ));
        }
    }
    if errors.is_empty() {
        return Ok(documents);
    }
    bail!(errors.join("\nerror: "))
}

/// Reads files as [`read_all`], and keeps empty lists of a kind.
fn read_with_lists(paths: &[PathBuf]) -> anyhow::Result<Vec<Document>> {
    let mut files = Vec::new();
    for path in paths {
        if path.is_dir() {
            files.extend(files_of(path)?);
        } else {
            files.push(path.clone());
        }
    }
    let mut all = Read::default();
    for file in &files {
        match read_text(file) {
            Ok(text) => all.parse(&file.display().to_string(), &text),
            Err(error) => all.errors.push(error),
        }
    }
    all.finish()
}

/// Reads files whose objects are looked up together. An object that is given more than once counts
/// once.
///
/// # Errors
/// A file cannot be read, a document is not a Kubernetes object, or two objects of one kind,
/// namespace and name differ.
pub fn read_distinct(paths: &[PathBuf]) -> anyhow::Result<Vec<Document>> {
    distinct(recognizable(read_all(paths)?)?)
}

/// Removes the objects that are given more than once, with a note about each. An object without a
/// name is kept, because an API server would generate one.
///
/// # Errors
/// Two objects of one kind, namespace and name differ: the result would depend on their order.
pub(super) fn distinct(documents: Vec<Document>) -> anyhow::Result<Vec<Document>> {
    let mut positions: BTreeMap<[String; 4], usize> = BTreeMap::new();
    let mut places: BTreeMap<([String; 3], bool), String> = BTreeMap::new();
    let mut kept: Vec<Document> = Vec::new();
    for document in documents {
        let identity = document.identity().map(str::to_owned);
        let first = positions.get(&identity).and_then(|position| kept.get(*position));
        match first {
            Some(first) if first.object == document.object => {
                note(&format!(
                    "{}: {} is given more than once and counts once",
                    document.place(),
                    document.title()
                ));
                continue;
            }
            Some(first) => bail!(
                "{}: {} differs from the one at {}; give each object once",
                document.place(),
                document.title(),
                first.place()
            ),
            None if document.key().2.is_empty() => {}
            None => {
                if OWNERS.contains(&document.key().0) {
                    one_namespace(&document, &mut places)?;
                }
                positions.insert(identity, kept.len());
            }
        }
        kept.push(document);
    }
    Ok(kept)
}

/// Refuses two objects of one kind and name, only one of which has a namespace: they may be one
/// object, because the namespace of the other one depends on the command.
fn one_namespace(document: &Document, places: &mut BTreeMap<([String; 3], bool), String>) -> anyhow::Result<()> {
    let [group, kind, namespace, name] = document.identity();
    let of = [group, kind, name].map(str::to_owned);
    if let Some(other) = places.get(&(of.clone(), !namespace.is_empty())) {
        bail!(
            "{}: {} and the one at {other} may be one object, because only one of them has a namespace; write the \
             namespace of both, and give each object once",
            document.place(),
            document.title()
        );
    }
    places.insert((of, namespace.is_empty()), document.place());
    Ok(())
}

/// The order in which objects of one kind are planned: those of the namespace before others, and in
/// it the one with the name that the controller manages.
pub(super) fn rank(metadata: &ObjectMeta, name: &str, namespace: &str) -> (bool, bool) {
    let own = metadata.namespace.as_deref().unwrap_or_default();
    (!own.is_empty() && own != namespace, metadata.name() != name)
}

/// Prints a note to standard error.
pub(super) fn note(text: &str) {
    // If standard error is closed, the note cannot be reported anywhere.
    let _ignored = writeln!(std::io::stderr(), "note: {}", plain(text));
}

/// Checks that the owner of machines has a namespace, if files contain objects of Cluster API in
/// several: it is not known which ones belong to it.
///
/// # Errors
/// The owner has no namespace beside objects in several namespaces.
pub(super) fn require_namespace(documents: &[Document], is_owner: impl Fn(&Value) -> bool) -> anyhow::Result<()> {
    let owner = documents.iter().find(|document| is_owner(&document.object));
    let Some(owner) = owner.filter(|owner| owner.text("/metadata/namespace").is_empty()) else {
        return Ok(());
    };
    let objects = documents
        .iter()
        .filter(|document| document.text("/apiVersion").contains("cluster.x-k8s.io/"));
    let namespaces: BTreeSet<&str> = objects.map(|document| document.text("/metadata/namespace")).collect();
    let namespaces: Vec<&str> = namespaces.into_iter().filter(|name| !name.is_empty()).collect();
    ensure!(
        namespaces.len() < 2,
        "{} {} must have a namespace: the objects are in the namespaces {}; set its metadata.namespace",
        owner.text("/kind"),
        owner.text("/metadata/name"),
        namespaces.join(", ")
    );
    Ok(())
}

/// Notes the objects of Cluster API, and the members of etcd, outside of the namespace of their
/// owner, which is a control plane or a pool. They do not belong to it.
pub(super) fn note_other_namespaces(documents: &[Document], namespace: &str, owner: &str) {
    let is_other = |document: &&Document| {
        let own = document.text("/metadata/namespace");
        let is_read =
            document.text("/apiVersion").contains("cluster.x-k8s.io/") || document.text("/kind") == ETCD_MEMBERS;
        is_read && !own.is_empty() && !namespace.is_empty() && own != namespace
    };
    let mut others = documents.iter().filter(is_other);
    let Some(first) = others.next() else { return };
    let others = match others.count() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    note(&format!(
        "the {owner} is in namespace {namespace}, so these objects do not belong to it: {}{others}",
        first.title()
    ));
}

/// The manifests of a folder. Its subfolders are not read, as with `kubectl -f`.
fn files_of(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let step = || format!("reading the folder {}", folder.display());
    let (mut files, mut subfolders) = (Vec::new(), Vec::new());
    for entry in std::fs::read_dir(folder).with_context(step)? {
        let path = entry.with_context(step)?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_dir() && !name.starts_with('.') {
            subfolders.push(name.to_owned());
        }
        let extension = path.extension().and_then(|extension| extension.to_str());
        let is_manifest = extension.is_some_and(|extension| ["yaml", "yml", "json"].contains(&extension));
        if path.is_file() && is_manifest {
            files.push(path);
        } else if is_manifest && !path.is_dir() {
            bail!(
                "{} must be a file, or a link to one: it is not read; repair or remove it",
                path.display()
            );
        }
    }
    files.sort();
    subfolders.sort();
    let (folder, subfolders) = (folder.display(), subfolders.join(", "));
    if files.is_empty() {
        let hint = if subfolders.is_empty() {
            ""
        } else {
            "; its subfolders are not read: "
        };
        bail!("the folder {folder} must contain a file that ends in .yaml, .yml or .json{hint}{subfolders}");
    }
    if !subfolders.is_empty() {
        note(&format!(
            "the subfolders of {folder} are not read: {subfolders}; name each folder"
        ));
    }
    Ok(files)
}

/// Makes the snapshot that rules and plans look objects up in.
///
/// # Errors
/// An object does not have the types of its kind. The error names its place.
pub fn snapshot(documents: &[Document]) -> anyhow::Result<Snapshot> {
    for document in documents {
        Snapshot::of_files(std::slice::from_ref(&document.object)).with_context(|| document.place())?;
    }
    let objects: Vec<Value> = documents.iter().map(|document| document.object.clone()).collect();
    Ok(Snapshot::of_files(&objects)?)
}

/// Reads one file.
///
/// # Errors
/// The file cannot be read, or a document is not a Kubernetes object.
pub fn read(path: &Path) -> anyhow::Result<Vec<Document>> {
    let text = read_text(path)?;
    parse(&path.display().to_string(), &text)
}

/// Returns the bytes of a file, or of standard input for `-`.
///
/// # Errors
/// The file cannot be read.
pub fn read_bytes(path: &Path) -> anyhow::Result<Vec<u8>> {
    if path.as_os_str() == "-" {
        let mut bytes = Vec::new();
        std::io::stdin()
            .lock()
            .read_to_end(&mut bytes)
            .context("reading standard input")?;
        return Ok(bytes);
    }
    std::fs::read(path).with_context(|| format!("reading {}", path.display()))
}

fn read_text(path: &Path) -> anyhow::Result<String> {
    String::from_utf8(read_bytes(path)?).with_context(|| format!("{}: must be UTF-8 text", path.display()))
}

/// Parses the text of a file; `file` is its name in messages.
///
/// # Errors
/// A document is not a Kubernetes object.
pub fn parse(file: &str, text: &str) -> anyhow::Result<Vec<Document>> {
    let mut read = Read::default();
    read.parse(file, text);
    let mut documents = read.finish()?;
    documents.retain(|document| !document.is_empty_list());
    Ok(documents)
}

/// What was read so far.
#[derive(Default)]
struct Read {
    /// The objects, and empty lists of a kind.
    documents: Vec<Document>,
    /// What cannot be read.
    errors: Vec<anyhow::Error>,
}

impl Read {
    /// The documents, or one error with the text of all errors, so that a user can correct all at
    /// once.
    fn finish(self) -> anyhow::Result<Vec<Document>> {
        if self.errors.is_empty() {
            return Ok(self.documents);
        }
        let texts: Vec<String> = self.errors.iter().map(|error| format!("{error:#}")).collect();
        bail!(texts.join("\nerror: "))
    }

    /// Parses the text of a file.
    fn parse(&mut self, file: &str, text: &str) {
        let mut number = 0;
        for (line, part) in split(text) {
            if part.trim_start().starts_with(['{', '[']) {
                self.json(file, &mut number, line, &part);
            } else {
                number += 1;
                self.add(file, number, line, yaml(file, number, line, &part));
            }
        }
    }

    /// Parses a stream of JSON documents.
    fn json(&mut self, file: &str, number: &mut usize, line: usize, part: &str) {
        let mut stream = serde_json::Deserializer::from_str(part).into_iter::<Unique>();
        let (mut read, mut reached) = (0, line);
        loop {
            let offset = stream.byte_offset();
            reached += newlines(part.get(read..offset).unwrap_or_default());
            read = offset;
            let line = reached + newlines(blank(part.get(offset..).unwrap_or_default()));
            let Some(next) = stream.next() else { break };
            *number += 1;
            let nothing_read = || {
                let read = part.get(..stream.byte_offset());
                read.is_none_or(|read| read.trim().is_empty())
            };
            let value = match next {
                Ok(Unique(value)) => Ok(value),
                // YAML in flow style starts like JSON.
                Err(error) if nothing_read() => read_yaml(part).map_err(|other| {
                    // JSON that is nested too deeply exceeds both parsers.
                    if is_over_budget(&other) {
                        anyhow!(
                            "{file}: document {number}, from line {line}: must be nested less deeply for Capstan to \
                             read it: {error}"
                        )
                    } else {
                        not_yaml(file, *number, line, &other)
                    }
                }),
                Err(error) => Err(not_json(file, *number, line, &error)),
            };
            let is_end = value.is_err();
            self.add(file, *number, line, value);
            if is_end {
                break;
            }
        }
    }

    /// Adds a document, or its error.
    fn add(&mut self, file: &str, number: usize, line: usize, value: anyhow::Result<Value>) {
        let added = value.and_then(|value| add(&mut self.documents, file, number, line, value));
        self.errors.extend(added.err());
    }
}

/// The limits of the YAML parser. A kubectl list of thousands of objects is one document, so that
/// the number of nodes is limited by the text only. What aliases multiply stays limited.
fn limits(part: &str) -> serde_saphyr::Options {
    const EVENTS_OF_NODE: usize = 4;
    let least = serde_saphyr::Budget::default();
    serde_saphyr::options! {
        // kubectl reads YAML 1.1, in which `0120` is 80.
        legacy_octal_numbers: true,
        budget: serde_saphyr::budget! {
            max_nodes: part.len().max(least.max_nodes),
            max_events: part.len().saturating_mul(EVENTS_OF_NODE).max(least.max_events),
            max_total_scalar_bytes: part.len().max(least.max_total_scalar_bytes),
            max_total_comment_bytes: part.len().max(least.max_total_comment_bytes),
        },
    }
}

fn read_yaml(part: &str) -> Result<Value, serde_saphyr::Error> {
    serde_saphyr::from_str_with_options(part, limits(part))
}

fn yaml(file: &str, number: usize, line: usize, part: &str) -> anyhow::Result<Value> {
    read_yaml(part).map_err(|error| not_yaml(file, number, line, &error))
}

/// Whether a text exceeds a limit of the parser. An error in an alias has only the text.
fn is_over_budget(error: &serde_saphyr::Error) -> bool {
    let error = error.without_snippet();
    matches!(error, serde_saphyr::Error::Budget { .. }) || error.to_string().starts_with("budget breached")
}

fn not_json(file: &str, number: usize, line: usize, error: &serde_json::Error) -> anyhow::Error {
    anyhow!("{file}: document {number}, from line {line}: must be valid JSON: {error}")
}

fn not_yaml(file: &str, number: usize, line: usize, error: &serde_saphyr::Error) -> anyhow::Error {
    let at = error.location().map_or(line, |location| {
        line + usize::try_from(location.line()).unwrap_or(1) - 1
    });
    if is_over_budget(error) {
        let depth = serde_saphyr::Budget::default().max_depth;
        return anyhow!(
            "{file}: document {number}, line {at}: must be within the limits of Capstan's YAML parser: at most {depth} \
             nested levels, and no aliases that repeat large parts; write the objects as JSON, or without aliases"
        );
    }
    let why = error.without_snippet().to_string();
    // The parser's position counts from the start of the document, and the message already names
    // the line in the file. The text after ", set " concerns options of the parser.
    let why = why.rsplit_once(" at line ").map_or(why.as_str(), |(why, _)| why);
    let why = why.split_once(", set ").map_or(why, |(why, _)| why);
    anyhow!("{file}: document {number}, line {at}: must be valid YAML: {why}")
}

/// Splits a text into YAML documents with their first lines. A line that starts with `---` ends a
/// document, and so does a line `...`. Only a block scalar at the top level could contain such a
/// line, and that is not an object.
fn split(text: &str) -> Vec<(usize, String)> {
    let mut parts: Vec<(usize, String)> = vec![(1, String::new())];
    for (number, line) in text.lines().enumerate() {
        let separator = line
            .strip_prefix("---")
            .or_else(|| line.strip_prefix("..."))
            .filter(|rest| rest.is_empty() || rest.starts_with([' ', '\t']));
        match separator {
            Some(rest) => parts.push((number + 1, format!("{}\n", rest.trim_start()))),
            None => {
                if let Some((_, part)) = parts.last_mut() {
                    part.push_str(line);
                    part.push('\n');
                }
            }
        }
    }
    let has_content = |part: &str| {
        part.lines()
            .any(|line| !line.trim().is_empty() && !line.trim_start().starts_with('#'))
    };
    parts.retain(|(_, part)| has_content(part));
    parts
}

fn add(documents: &mut Vec<Document>, file: &str, number: usize, line: usize, value: Value) -> anyhow::Result<()> {
    if let Value::Array(items) = value {
        for item in items {
            add(documents, file, number, line, item)?;
        }
        return Ok(());
    }
    let kind = value.get("kind").and_then(Value::as_str).unwrap_or_default();
    if !value.is_object() || kind.is_empty() || value.get("apiVersion").and_then(Value::as_str).is_none() {
        bail!("{file}: document {number}, line {line}: must be a Kubernetes object with apiVersion and kind");
    }
    let of_list = kind.strip_suffix("List");
    match (of_list, value.get("items")) {
        (Some(of), Some(Value::Array(items))) => {
            for (index, item) in items.iter().enumerate() {
                add(documents, file, number, line, item_of(&value, of, item))
                    .map_err(|error| anyhow!("{error:#}; it is item {index} of a list, from 0"))?;
            }
            // An empty list of a kind is kept, and a List tells nothing about any kind.
            if of.is_empty() || !items.is_empty() {
                return Ok(());
            }
        }
        (Some(""), None | Some(Value::Null)) => return Ok(()),
        (Some(""), Some(_)) => bail!("{file}: document {number}, line {line}: items of a List must be a list"),
        _ => {}
    }
    let mut object = value;
    write_whole_numbers(&mut object);
    // For an API server, null is no value.
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|_, value| !value.is_null());
    }
    documents.push(Document {
        file: file.to_owned(),
        line,
        object,
    });
    Ok(())
}

/// Writes numbers such as 3.0 and 3e0 as integers, as kubectl does before it sends an object.
fn write_whole_numbers(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            // The text of a whole number has no point, and no exponent.
            let whole = number.as_f64().filter(|float| float.abs() < 1e18);
            if let Some(integer) = whole.and_then(|float| float.to_string().parse::<i64>().ok()) {
                *value = Value::from(integer);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(write_whole_numbers),
        Value::Object(fields) => fields.values_mut().for_each(write_whole_numbers),
        _ => {}
    }
}

/// An item of a list as a separate object. In a typed list such as a `NodeList`, only the list has
/// an apiVersion and a kind.
fn item_of(list: &Value, kind: &str, item: &Value) -> Value {
    let mut item = item.clone();
    if let Value::Object(fields) = &mut item
        && !kind.is_empty()
        && !fields.contains_key("kind")
    {
        fields.insert(String::from("kind"), Value::from(kind));
        let version = list.get("apiVersion").cloned().unwrap_or_default();
        fields.entry("apiVersion").or_insert(version);
    }
    item
}

fn newlines(text: &str) -> usize {
    text.matches('\n').count()
}

/// The white space at the start of a text.
fn blank(text: &str) -> &str {
    text.split_once(|letter: char| !letter.is_whitespace())
        .map_or(text, |(blank, _)| blank)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_document_has_the_line_at_which_it_starts() {
        let text = "# a comment\n---\napiVersion: v1\nkind: A\n---\n\n---\napiVersion: v1\nkind: B\n";
        let lines: Vec<(usize, String)> = parse("f", text)
            .unwrap()
            .iter()
            .map(|d| (d.line, d.text("/kind").to_owned()))
            .collect();
        assert_eq!(lines, [(2, "A".to_owned()), (7, "B".to_owned())]);
    }

    #[test]
    fn the_items_of_a_list_and_of_an_array_become_documents() {
        let text = r#"[{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"A"}]},{"apiVersion":"v1","kind":"B"}]"#;
        let kinds: Vec<String> = parse("f", text)
            .unwrap()
            .iter()
            .map(|d| d.text("/kind").to_owned())
            .collect();
        assert_eq!(kinds, ["A", "B"]);
    }

    #[test]
    fn a_parse_error_names_document_and_line() {
        let error = parse("f", "apiVersion: v1\nkind: A\n---\napiVersion: v1\nkind: [\n")
            .unwrap_err()
            .to_string();
        assert!(error.starts_with("f: document 2, line "), "{error}");
        let error = parse("f", "apiVersion: v1\nkind: A\n---\nname: x\n")
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("document 2, line 3: must be a Kubernetes object"),
            "{error}"
        );
        let error = format!("{:#}", parse("f", "{\"kind\":").unwrap_err());
        assert!(error.contains("document 1, line 1"), "{error}");
    }

    #[test]
    fn a_list_without_items_is_empty_and_other_items_are_an_error() {
        let list = |items: &str| parse("f", &format!("apiVersion: v1\nkind: List\n{items}\n"));
        assert!(list("").unwrap().is_empty());
        assert!(list("items: null").unwrap().is_empty());
        assert!(list("items: []").unwrap().is_empty());
        let error = list("items: 3").unwrap_err().to_string();
        assert_eq!(error, "f: document 1, line 1: items of a List must be a list");
    }

    #[test]
    fn items_of_a_typed_list_have_its_kind() {
        let text = r#"{"apiVersion": "v1", "kind": "NodeList", "items": [{"metadata": {"name": "a"}}]}"#;
        let documents = parse("f", text).unwrap();
        assert_eq!(documents[0].key(), ("Node", "", "a"));
        assert_eq!(documents[0].text("/apiVersion"), "v1");
    }

    #[test]
    fn a_duplicate_name_is_an_error_in_json_and_in_yaml() {
        let json = "{\"apiVersion\": \"v1\", \"kind\": \"A\",\n\"spec\": [{\"replicas\": 5, \"replicas\": 3}]}";
        let yaml = "apiVersion: v1\nkind: A\nkind: B\n";
        let second = format!("{{\"apiVersion\": \"v1\", \"kind\": \"A\"}}\n{json}");
        for text in [json, yaml, &second] {
            let error = parse("f", text).unwrap_err().to_string();
            assert!(
                error.starts_with("f: document ") && error.contains("duplicate"),
                "{error}"
            );
        }
    }

    #[test]
    fn w166_a_number_that_begins_with_zero_is_octal_as_in_kubectl() {
        let documents = parse(
            "f",
            "apiVersion: v1\nkind: A\nspec: {size: 0120, text: \"0120\", zero: 0}\n",
        )
        .unwrap();
        let expected = serde_json::json!({"size": 80, "text": "0120", "zero": 0});
        assert_eq!(documents[0].object["spec"], expected);
    }

    #[test]
    fn a_file_may_contain_several_json_documents() {
        let text = "{\"apiVersion\":\"v1\",\"kind\":\"A\"}\n\n{\"apiVersion\":\"v1\",\"kind\":\"B\"}\n";
        let lines: Vec<usize> = parse("f", text).unwrap().iter().map(|d| d.line).collect();
        assert_eq!(lines, [1, 3]);
    }

    proptest::proptest! {
        #![proptest_config(proptest::test_runner::Config::with_cases(2_000))]

        #[test]
        fn any_text_gives_documents_or_an_error(text in "(\\PC|\n|---\n|- |: |\\{|\\}|\\[|\\]|apiVersion: v1\n|kind: A\n|\"){0,60}") {
            if let Ok(documents) = parse("f", &text) {
                proptest::prop_assert!(documents.iter().all(|document| document.line >= 1 && document.object.is_object()));
            }
        }
    }
}
