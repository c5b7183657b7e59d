//! Copies the authoritative Machine, MachineSet, or MachineHealthCheck to its mirror: spec, labels,
//! annotations, owner and status.
//!
//! [`next`] compares what the conversion makes of the source with what is stored, and returns one
//! write, or none if the mirror agrees. It decides by content, with a fingerprint of the source in
//! the record of the mirror (decision 26), and never by a generation.
//!
//! Must never: write to the source, delete an object that holds an instance, or unpause anything.
//!
//! Source: the Converting Machine API to Cluster API enhancement, "Synchronisation of resources".

use serde_json::{Map, Value, json};

use super::difference::{Difference, merge_patch};
use super::finalizers::{self, Removed};
use super::pair::{FullObject, Pair, Part, Write};
use super::record::{self, Record, merge_entries};
use super::removal::is_owned_by;
use super::spec::{Api, Authority, CONTROL_PLANE_SET, Kind};
use super::sync_status;
use super::templates::{self, Template};
use super::{FINALIZER, PAUSED_BY_SYNC, pause, words};
use crate::api::cluster_x_k8s_io::annotation::PAUSED;
use crate::api::machine_openshift_io::authority::MIRRORED;
use crate::conversion::{self, Context, Converted, Issue, Lookup, Severity};
use crate::model::hex_hash;

/// The reason of the condition Synchronized of an object whose owner has no counterpart.
pub(super) const OWNER_NOT_SUPPORTED: &str = "OwnerNotSupported";
/// What must be there so that the owner of a mirror is known.
const CLUSTER_MISSING: &str =
    "the Infrastructure cluster must have status.infrastructureName, and Cluster API a Cluster of this name";
/// Digits of a fingerprint.
const DIGITS: usize = 16;

/// The result of a comparison of the mirror with its source.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// The mirror agrees. The issues are about values that the mirror cannot hold.
    Current(Vec<String>),
    /// The next write to the mirror.
    Write(Box<Write>),
    /// The mirror cannot be made to agree until something changes.
    Blocked {
        /// The reason of the condition Synchronized.
        reason: &'static str,
        /// The field and the reason.
        message: String,
    },
}

impl Outcome {
    fn blocked(reason: &'static str, message: impl Into<String>) -> Self {
        let message = message.into();
        Self::Blocked { reason, message }
    }
}

impl From<Write> for Outcome {
    fn from(write: Write) -> Self {
        Self::Write(Box::new(write))
    }
}

/// The fingerprint of the source of an API.
#[derive(Clone, Debug)]
pub(super) struct Fingerprint {
    from: Api,
    text: String,
}

/// The next write that makes the mirror agree with the Machine of the API `from`.
pub fn next(pair: &Pair, from: Api) -> Outcome {
    compare(pair, from, &mut None)
}

/// The same. Keeps the fingerprint of the source, if it was needed.
pub(super) fn compare(pair: &Pair, from: Api, known: &mut Option<Fingerprint>) -> Outcome {
    let Some(source) = pair.machine(from) else {
        return Outcome::blocked(
            "SourceNotFound",
            format!("the {} in {} does not exist", pair.kind.title(), from.title()),
        );
    };
    let owner = match from {
        _ if pair.is_parent() => owner_of_parent(pair, source, from),
        Api::MachineApi => owner_in_cluster_api(pair, source),
        Api::ClusterApi => owner_in_machine_api(pair, source),
    };
    let owner = match owner {
        Ok(owner) => owner,
        Err(blocked) => return blocked,
    };
    let has_infrastructure = pair.kind != Kind::MachineHealthCheck;
    if from == Api::ClusterApi && has_infrastructure && pair.infrastructure.is_none() {
        let message = match pair.is_set() {
            true => "the template that spec.template.spec.infrastructureRef names does not exist",
            false => "the infrastructure machine that spec.infrastructureRef names does not exist",
        };
        return Outcome::blocked("InfrastructureNotFound", message);
    }
    let mut converted = convert(pair, source, from);
    let (blocks, loses): (Vec<&Issue>, Vec<&Issue>) = converted
        .issues
        .iter()
        .partition(|issue| issue.severity == Severity::Blocks);
    if !blocks.is_empty() {
        return Outcome::blocked(not_convertible(pair.kind, from), listed(&blocks));
    }
    let fingerprint = fingerprint(pair, source, from);
    *known = Some(Fingerprint {
        from,
        text: fingerprint.clone(),
    });
    let copy = Copy {
        pair,
        from,
        fingerprint,
        owner,
    };
    let losses = loses.iter().map(|issue| text(issue)).collect();
    if pair.is_set() && from == Api::MachineApi {
        let outcome = copy.template(&mut converted.objects);
        if let Some(outcome) = outcome {
            return outcome;
        }
    }
    let parts: &[Part] = match from {
        Api::MachineApi if pair.is_parent() => &[Part::ClusterApi],
        Api::MachineApi => &[Part::ClusterApi, Part::Infrastructure],
        Api::ClusterApi => &[Part::MachineApi],
    };
    for (part, wanted) in parts.iter().zip(&converted.objects) {
        // Cluster API is authoritative already: what a user wrote to its Machine stays.
        if *part == Part::ClusterApi && is_copied_once(pair) {
            continue;
        }
        if let Some(outcome) = copy.object(*part, wanted) {
            return outcome;
        }
    }
    let unused = templates::unused(pair).filter(|_| from == Api::MachineApi);
    unused.map_or(Outcome::Current(losses), Outcome::from)
}

/// Whether only the infrastructure machine is missing to a Machine that was created for Cluster
/// API.
fn is_copied_once(pair: &Pair) -> bool {
    let machine = pair.machine_api.as_ref();
    let authority = machine.map(|machine| machine.member.authority());
    authority == Some(Authority::Stable(Api::ClusterApi)) && record::is_unfinished_copy(pair)
}

/// The reason of the condition Synchronized of an object with a field that blocks the conversion.
fn not_convertible(kind: Kind, from: Api) -> &'static str {
    match (from, kind) {
        (Api::MachineApi, Kind::MachineSet) => "FailedToConvertMAPIMachineSetToCAPI",
        (Api::ClusterApi, Kind::MachineSet) => "FailedToConvertCAPIMachineSetToMAPI",
        (Api::MachineApi, Kind::MachineHealthCheck) => "FailedToConvertMAPIMachineHealthCheckToCAPI",
        (Api::ClusterApi, Kind::MachineHealthCheck) => "FailedToConvertCAPIMachineHealthCheckToMAPI",
        (Api::MachineApi, _) => "FailedToConvertMAPIMachineToCAPI",
        (Api::ClusterApi, _) => "FailedToConvertCAPIMachineToMAPI",
    }
}

/// Whether the mirror was made from the Machine of the API `from` as it is now.
pub(super) fn is_current(pair: &Pair, from: Api, known: Option<&Fingerprint>) -> bool {
    let Some(source) = pair.machine(from) else { return false };
    let known = known.filter(|known| known.from == from);
    let fingerprint = known.map_or_else(|| fingerprint(pair, source, from), |known| known.text.clone());
    pair.machine(from.other()).is_some_and(|mirror| {
        let record = Record::of(mirror);
        record.from == from.as_str() && record.fingerprint == fingerprint
    })
}

/// Whether the mirror was made with the spec that the conversion of the Machine of the API `from`
/// has now, or found to agree with it.
pub(super) fn has_spec_of(pair: &Pair, from: Api) -> bool {
    let (Some(source), Some(mirror)) = (pair.machine(from), pair.machine(from.other())) else {
        return false;
    };
    let record = Record::of(mirror);
    let converted = convert(pair, source, from);
    let spec = converted.objects.first().map(spec_hash);
    record.from == from.as_str() && Some(record.spec) == spec
}

/// The hash of the spec of a converted object, without the request for an API.
fn spec_hash(converted: &Value) -> String {
    let mut spec = converted.get("spec").cloned().unwrap_or_default();
    if let Value::Object(fields) = &mut spec {
        fields.remove("authoritativeAPI");
    }
    hex_hash(&spec, DIGITS)
}

/// The fingerprint of everything convertible on the side of the source, infrastructure included.
fn fingerprint(pair: &Pair, source: &FullObject, from: Api) -> String {
    let context = Context {
        mirror: None,
        ..context(pair, from)
    };
    let mut normal = vec![conversion::normalise(&source.value, &context)];
    if let (Api::ClusterApi, Some(infrastructure)) = (from, &pair.infrastructure) {
        normal.push(conversion::normalise(&infrastructure.value, &context));
    }
    let owner = source.member.owner().map(|owner| owner.name.as_str());
    hex_hash(&json!([normal, owner]), DIGITS)
}

fn convert(pair: &Pair, source: &FullObject, from: Api) -> Converted {
    let of_set = source.member.owner().is_some_and(|owner| owner.kind == "MachineSet");
    let parent = pair.set(from.other()).filter(|_| of_set);
    let context = Context {
        parent: parent.map(|set| &*set.value),
        ..context(pair, from)
    };
    match from {
        Api::MachineApi => conversion::to_cluster_api(&source.value, &context),
        Api::ClusterApi => conversion::to_machine_api(&source.value, &context),
    }
}

fn context(pair: &Pair, from: Api) -> Context<'_> {
    let surroundings = &pair.surroundings;
    Context {
        infrastructure: Lookup::from(surroundings.infrastructure.as_deref()),
        infrastructure_cluster: Lookup::from(surroundings.infrastructure_cluster.as_deref()),
        infrastructure_machine: Lookup::from(pair.infrastructure.as_ref().map(|object| &*object.value)),
        mirror: pair.machine(from.other()).map(|object| &*object.value),
        parent: None,
        role: None,
        secrets: &surroundings.secrets,
    }
}

/// An issue as a sentence: `spec.x: reason; way out`.
fn text(issue: &Issue) -> String {
    let (path, reason) = (issue.path.as_str(), &issue.reason);
    match issue.way_out.as_str() {
        "" => format!("{path}: {reason}"),
        way_out => format!("{path}: {reason}; {way_out}"),
    }
}

/// The first issue, and the fields of the others.
fn listed(issues: &[&Issue]) -> String {
    let Some((first, others)) = issues.split_first() else {
        return String::new();
    };
    let paths: Vec<&str> = others.iter().take(4).map(|issue| issue.path.as_str()).collect();
    match (paths.len(), others.len()) {
        (0, _) => text(first),
        (shown, all) if shown < all => format!("{} (also: {} and {} more)", text(first), paths.join(", "), all - shown),
        _ => format!("{} (also: {})", text(first), paths.join(", ")),
    }
}

/// The owner of a mirror in Cluster API. The Cluster owns a Machine without an owner, and one whose
/// owner has no counterpart in Cluster API. `None`: the owner references stay as they are.
fn owner_in_cluster_api(pair: &Pair, source: &FullObject) -> Result<Option<Value>, Outcome> {
    let owner = source.member.owner();
    if let Some(owner) = owner.filter(|owner| owner.kind == "MachineSet") {
        let Some(set) = &pair.cluster_api_set else {
            let message = format!(
                "metadata.ownerReferences: MachineSet {} has no mirror in Cluster API",
                owner.name
            );
            return Err(Outcome::blocked("MachineSetNotMirrored", message));
        };
        if !set.member.deleting {
            return Ok(Some(reference(&set.value, true)));
        }
        // The garbage collector deletes what a MachineSet owns that is gone.
        if pair.cluster_api.is_some() {
            return Ok(None);
        }
        let message = format!(
            "metadata.ownerReferences: the mirror of MachineSet {} in Cluster API is being deleted",
            owner.name
        );
        return Err(Outcome::blocked("MachineSetNotMirrored", message));
    }
    if let Some(owner) = owner.filter(|owner| owner.kind != CONTROL_PLANE_SET) {
        let message = format!(
            "metadata.ownerReferences: a {} has no counterpart in Cluster API",
            owner.kind
        );
        return Err(Outcome::blocked(OWNER_NOT_SUPPORTED, message));
    }
    // A MachineSet of Cluster API adopts a Machine without an owner that its selector matches.
    let set = pair.cluster_api_set.as_ref().zip(pair.cluster_api.as_ref());
    if owner.is_none() && set.is_some_and(|(set, mirror)| is_owned_by(mirror, set)) {
        return Ok(None);
    }
    match &pair.surroundings.cluster {
        Some(cluster) => Ok(Some(reference(cluster, false))),
        None => Err(Outcome::blocked("ClusterNotFound", CLUSTER_MISSING)),
    }
}

/// The owner of a mirror in the Machine API. `None`: the owner references stay as they are.
fn owner_in_machine_api(pair: &Pair, source: &FullObject) -> Result<Option<Value>, Outcome> {
    let Some(owner) = source.member.owner() else {
        return Ok(None);
    };
    if owner.kind != "MachineSet" {
        let message = format!(
            "metadata.ownerReferences: a {} has no counterpart in the Machine API",
            owner.kind
        );
        return Err(Outcome::blocked(OWNER_NOT_SUPPORTED, message));
    }
    Ok(pair.machine_api_set.as_ref().map(|set| reference(&set.value, true)))
}

/// The owner of the mirror of a MachineSet or a MachineHealthCheck. Only the Cluster owns one.
fn owner_of_parent(pair: &Pair, source: &FullObject, from: Api) -> Result<Option<Value>, Outcome> {
    if let Some(owner) = source.member.owner() {
        let (kind, owned, to) = (&owner.kind, pair.kind.title(), from.other().title());
        let message = format!("metadata.ownerReferences: the {kind} that owns the {owned} is not copied to {to}");
        return Err(Outcome::blocked(OWNER_NOT_SUPPORTED, message));
    }
    match (from, &pair.surroundings.cluster) {
        (Api::ClusterApi, _) => Ok(None),
        (Api::MachineApi, Some(cluster)) => Ok(Some(reference(cluster, false))),
        (Api::MachineApi, None) => Err(Outcome::blocked("ClusterNotFound", CLUSTER_MISSING)),
    }
}

fn reference(owner: &Value, controller: bool) -> Value {
    let text = |at: &str| owner.pointer(at).and_then(Value::as_str).unwrap_or_default();
    json!({"apiVersion": text("/apiVersion"), "kind": text("/kind"), "name": text("/metadata/name"),
        "uid": text("/metadata/uid"), "controller": controller, "blockOwnerDeletion": true})
}

/// A copy from one API to the other.
struct Copy<'a> {
    pair: &'a Pair,
    from: Api,
    fingerprint: String,
    owner: Option<Value>,
}

impl Copy<'_> {
    /// The write that makes the infrastructure template of a MachineSet, or why it cannot be made.
    /// The MachineSet refers to the template afterwards, so the template comes first.
    fn template(&self, objects: &mut Vec<Value>) -> Option<Outcome> {
        let wanted = (objects.len() > 1).then(|| objects.swap_remove(1))?;
        match templates::choose(self.pair, &wanted, &context(self.pair, self.from)) {
            Template::Create => {
                let because = "no infrastructure template has the content of the MachineSet";
                let body = self.dressed(Part::Infrastructure, &wanted);
                Some(Write::create(Part::Infrastructure, body, because).into())
            }
            Template::Stored(name) => {
                let reference = objects
                    .first_mut()?
                    .pointer_mut("/spec/template/spec/infrastructureRef/name")?;
                *reference = name.into();
                None
            }
            Template::Unusable(message) => Some(Outcome::blocked("InfrastructureTemplateUnusable", message)),
        }
    }

    /// The next write to an object of the mirror, or why it cannot agree.
    fn object(&self, part: Part, converted: &Value) -> Option<Outcome> {
        let wanted = self.dressed(part, converted);
        let Some(stored) = self.pair.part(part) else {
            return Some(Write::create(part, self.requested(part, wanted, converted), "it does not exist").into());
        };
        if part == Part::Infrastructure && stored.member.deleting {
            let because = "the mirror of the infrastructure is made again";
            let release = finalizers::release(part, stored, Removed::OwnAndControllers, because);
            return Some(release.map_or_else(
                || {
                    Outcome::blocked(
                        "InfrastructureDeleting",
                        format!("{} is being deleted", pause::title(stored)),
                    )
                },
                Outcome::from,
            ));
        }
        let status = || sync_status::next(part, stored, converted, self.pair.kind).map(Outcome::from);
        self.update(part, stored, &wanted).or_else(status)
    }

    /// The body of a creation. A mirror in the Machine API is marked until it is seen beside its
    /// source. Of one in Cluster API, the missing infrastructure tells the same.
    fn requested(&self, part: Part, mut body: Value, converted: &Value) -> Value {
        let record = Record {
            requested: part == Part::MachineApi && !self.pair.is_parent(),
            ..self.record(converted)
        };
        if record.requested
            && let Some(Value::Object(annotations)) = body.pointer_mut("/metadata/annotations")
        {
            annotations.insert(MIRRORED.to_owned(), record.text().into());
        }
        body
    }

    /// The object as it is created: in the namespace of its API, owned, and with finalizers. An
    /// object of Cluster API is created paused, also if Cluster API is authoritative. It is
    /// unpaused after all objects exist.
    fn dressed(&self, part: Part, converted: &Value) -> Value {
        let mut wanted = converted.clone();
        let record = self.record(&wanted).text();
        let api = self.from.other();
        let Some(Value::Object(metadata)) = wanted.get_mut("metadata") else {
            return wanted;
        };
        let namespace = self.pair.surroundings.namespace(api);
        metadata.insert(String::from("namespace"), namespace.into());
        let is_template = self.pair.is_set() && part == Part::Infrastructure;
        let finalizers = metadata.entry("finalizers").or_insert_with(|| json!([]));
        if let (Value::Array(finalizers), false) = (finalizers, is_template) {
            finalizers.push(FINALIZER.into());
        }
        let owner = match part {
            Part::Infrastructure if !is_template => self
                .pair
                .cluster_api
                .as_ref()
                .map(|machine| reference(&machine.value, true)),
            _ => self.owner.clone(),
        };
        if let Some(owner) = owner {
            metadata.insert(String::from("ownerReferences"), json!([owner]));
        }
        let annotations = metadata.entry("annotations").or_insert_with(|| json!({}));
        if let Value::Object(annotations) = annotations {
            annotations.insert(MIRRORED.to_owned(), record.into());
            if api == Api::ClusterApi {
                annotations.insert(PAUSED.to_owned(), PAUSED_BY_SYNC.into());
            }
        }
        if let Value::Object(fields) = &mut wanted {
            fields.remove("status");
        }
        wanted
    }

    /// The record of a mirror that is made from a converted object.
    fn record(&self, converted: &Value) -> Record {
        let keys = |field: &str| {
            let entries = converted
                .pointer(&format!("/metadata/{field}"))
                .and_then(Value::as_object);
            entries.into_iter().flat_map(Map::keys).cloned().collect()
        };
        Record {
            from: self.from.as_str().to_owned(),
            fingerprint: self.fingerprint.clone(),
            spec: spec_hash(converted),
            labels: keys("labels"),
            annotations: keys("annotations"),
            tried: None,
            requested: false,
        }
    }

    /// The write that makes the metadata and the spec of a stored object agree.
    fn update(&self, part: Part, stored: &FullObject, wanted: &Value) -> Option<Outcome> {
        let known = Record::of(stored);
        let wanted_spec = self.spec_in_stored_words(part, stored, wanted);
        let wanted_spec = &wanted_spec;
        let stored_spec = stored.value.get("spec").unwrap_or(&Value::Null);
        let difference = Difference::between(wanted_spec, stored_spec, "spec");
        let mut record = self.record(&without_mechanism(wanted));
        let is_new_spec = record.spec != known.spec;
        if part == Part::Infrastructure && is_new_spec && !difference.changed.is_empty() {
            let because = format!(
                "{} cannot be changed in place, and it holds no instance",
                difference.changed.join(", ")
            );
            return Some(Write::delete(part, stored, because).into());
        }
        let tried = (!difference.is_empty())
            .then(|| hex_hash(&json!([record.spec, difference.missing, difference.extra]), DIGITS));
        let is_tried = tried.is_some() && known.tried == tried;
        record.tried = tried;
        let mut patch = Map::new();
        let mut metadata = self.metadata(stored, wanted, &known);
        if !is_tried
            && let Some(change) = merge_patch(wanted_spec, stored_spec)
            && !difference.is_empty()
        {
            patch.insert(String::from("spec"), change);
        }
        if record != known {
            annotate(&mut metadata, MIRRORED, record.text().into());
        }
        if !metadata.is_empty() {
            patch.insert(String::from("metadata"), metadata.into());
        }
        if !patch.is_empty() {
            let because = format!("it differs from the authoritative {}", self.pair.kind.title());
            return Some(Write::patch(part, stored, patch, because).into());
        }
        let field = difference.missing.first()?;
        let title = pause::title(stored);
        Some(Outcome::blocked(
            "MirrorNotStored",
            format!("{field}: {title} accepted the write and does not store the value"),
        ))
    }

    /// The spec of a wanted object. Of an object of the Machine API, fields that mean the same stay
    /// as they are stored.
    fn spec_in_stored_words(&self, part: Part, stored: &FullObject, wanted: &Value) -> Value {
        if part != Part::MachineApi {
            return wanted.get("spec").cloned().unwrap_or_default();
        }
        // A field that has the value of the cluster must be there: the way back does not add it.
        let context = Context {
            infrastructure: Lookup::Unknown,
            infrastructure_cluster: Lookup::Unknown,
            ..context(self.pair, self.from)
        };
        let normal = |object: &Value| conversion::normalise(object, &context);
        words::keep(wanted, &stored.value, &normal(wanted), &normal(&stored.value))
    }

    /// The merge patch of the labels, annotations and owner references of a stored object.
    fn metadata(&self, stored: &FullObject, wanted: &Value, known: &Record) -> Map<String, Value> {
        let mut patch = Map::new();
        let plain = without_mechanism(wanted);
        for (field, stored, copied) in [
            ("labels", &stored.member.labels, &known.labels),
            ("annotations", &stored.member.annotations, &known.annotations),
        ] {
            let empty = Map::new();
            let entries = plain.pointer(&format!("/metadata/{field}")).and_then(Value::as_object);
            let change = merge_entries(entries.unwrap_or(&empty), stored, copied);
            if !change.is_empty() {
                patch.insert(field.to_owned(), change.into());
            }
        }
        let owners = |object: &Value| {
            let list = object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
            let uid = |owner: &Value| {
                (
                    owner.get("uid").cloned(),
                    owner.get("controller") == Some(&Value::Bool(true)),
                )
            };
            list.map(|list| list.iter().map(uid).collect::<Vec<_>>())
        };
        let wanted_owners = owners(wanted);
        if wanted_owners.is_some() && wanted_owners != owners(&stored.value) {
            let list = wanted.pointer("/metadata/ownerReferences").cloned().unwrap_or_default();
            patch.insert(String::from("ownerReferences"), list);
        }
        patch
    }
}

/// The object without the annotations that the sync controller adds for itself.
fn without_mechanism(wanted: &Value) -> Value {
    let mut wanted = wanted.clone();
    if let Some(Value::Object(annotations)) = wanted.pointer_mut("/metadata/annotations") {
        annotations.retain(|key, _| key != MIRRORED && key != PAUSED);
    }
    wanted
}

fn annotate(metadata: &mut Map<String, Value>, key: &str, value: Value) {
    let annotations = metadata.entry("annotations").or_insert_with(|| json!({}));
    if let Value::Object(annotations) = annotations {
        annotations.insert(key.to_owned(), value);
    }
}
