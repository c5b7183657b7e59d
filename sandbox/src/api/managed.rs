//! `managedFields` and server-side apply.
//!
//! It follows structured-merge-diff. A manager that applies owns the fields that it applies. A
//! field that it no longer applies is removed unless another manager owns it. Every other write
//! owns the fields that it changes. Sources: the Kubernetes documentation of server-side apply, and
//! the answers of a real API server (`tests/fidelity`).

mod compare;
mod fields;
mod merge;

use capstan_core::model::{Violation, ViolationKind};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::kinds::Kind;
use super::metadata::{self, seconds};
use super::object::{Fields as _, Object};
use super::request::{Part, WriteOptions};
use compare::{Comparison, compare};
use fields::{Fields, of_value};

/// The field manager of a write, and the part that it writes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Writer<'a> {
    manager: &'a str,
    part: Part,
    api_version: &'a str,
}

impl<'a> Writer<'a> {
    pub(super) fn of(kind: &'a Kind, options: &'a WriteOptions, part: Part) -> Self {
        Self {
            manager: if options.manager.is_empty() {
                "unknown"
            } else {
                &options.manager
            },
            part,
            api_version: &kind.api_version,
        }
    }
}

/// One entry of `managedFields`.
#[derive(Clone, Debug, PartialEq)]
struct Entry {
    manager: String,
    apply: bool,
    part: String,
    api_version: String,
    time: String,
    fields: Fields,
}

impl Entry {
    fn is(&self, writer: &Writer<'_>, apply: bool) -> bool {
        self.manager == writer.manager
            && self.apply == apply
            && self.part == writer.part.as_str()
            && (apply || self.api_version == writer.api_version)
    }

    fn to_value(&self) -> Value {
        let mut entry = json!({
            "manager": self.manager, "operation": if self.apply { "Apply" } else { "Update" },
            "apiVersion": self.api_version, "time": self.time, "fieldsType": "FieldsV1", "fieldsV1": self.fields.to_value(),
        });
        if let (false, Some(entry)) = (self.part.is_empty(), entry.as_object_mut()) {
            entry.insert("subresource".into(), self.part.clone().into());
        }
        entry
    }
}

fn entries(object: Option<&Value>) -> Vec<Entry> {
    let list = object.and_then(|object| object.pointer("/metadata/managedFields")?.as_array());
    let text = |entry: &Value, field: &str| entry.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    list.into_iter()
        .flatten()
        .map(|entry| Entry {
            manager: text(entry, "manager"),
            apply: text(entry, "operation") == "Apply",
            part: text(entry, "subresource"),
            api_version: text(entry, "apiVersion"),
            time: text(entry, "time"),
            fields: entry.get("fieldsV1").map(Fields::parse).unwrap_or_default(),
        })
        .collect()
}

fn put(object: &mut Value, mut entries: Vec<Entry>) {
    entries.retain(|entry| !entry.fields.is_empty());
    // The API server orders entries by operation, then time, then manager.
    entries.sort_by(|left, right| {
        let key = |entry: &Entry| {
            (
                !entry.apply,
                entry.time.clone(),
                entry.manager.clone(),
                entry.api_version.clone(),
                entry.part.clone(),
            )
        };
        key(left).cmp(&key(right))
    });
    let list: Vec<Value> = entries.iter().map(Entry::to_value).collect();
    metadata::set(
        object,
        "managedFields",
        if list.is_empty() { Value::Null } else { list.into() },
    );
}

/// Removes the fields that a write to this part cannot own.
fn forget(kind: &Kind, part: Part, fields: &mut Fields) {
    for path in [
        &["apiVersion"][..],
        &["kind"],
        &["metadata", "name"],
        &["metadata", "namespace"],
        &["metadata", "creationTimestamp"],
        &["metadata", "selfLink"],
        &["metadata", "uid"],
        &["metadata", "generation"],
        &["metadata", "managedFields"],
        &["metadata", "resourceVersion"],
        &["metadata", "deletionTimestamp"],
        &["metadata", "deletionGracePeriodSeconds"],
    ] {
        fields.forget(path);
    }
    fields.forget_itself(&["metadata"]);
    match part {
        Part::Main if kind.status => fields.forget(&["status"]),
        Part::Status if kind.is_custom() => {
            fields.forget(&["metadata"]);
            fields.forget(&["spec"]);
        }
        Part::Status => fields.forget(&["spec"]),
        Part::Main | Part::Scale => {}
    }
}

fn changes(kind: &Kind, old: &Value, new: &Value, part: Part) -> Comparison {
    let mut comparison = compare(kind.schema(), old, new);
    for fields in [&mut comparison.added, &mut comparison.modified, &mut comparison.removed] {
        forget(kind, part, fields);
    }
    comparison
}

/// Sets `managedFields` in `new` after a write other than apply.
pub(super) fn update(kind: &Kind, old: Option<&Value>, new: &mut Value, writer: &Writer<'_>, now: Timestamp) {
    let empty = kind.empty();
    let mut all = entries(old);
    let wrong = |violation: &Violation| violation.kind == ViolationKind::TypeInvalid;
    if kind.is_custom() && kind.schema().validate(new, None).iter().any(wrong) {
        // Fields of the wrong type cannot be tracked.
        let kept = old.and_then(|old| old.pointer("/metadata/managedFields")).cloned();
        metadata::set(new, "managedFields", kept.unwrap_or_default());
        return;
    }
    if old.is_some() && all.is_empty() {
        // An object without managed fields is tracked from its first apply on.
        metadata::set(new, "managedFields", Value::Null);
        return;
    }
    let reset = new
        .pointer("/metadata/managedFields")
        .is_some_and(|list| list == &json!([]) || list == &json!([{}]));
    if reset {
        all.clear();
        metadata::set(new, "managedFields", Value::Null);
        return;
    }
    let Comparison {
        added,
        modified,
        removed,
    } = changes(kind, old.unwrap_or(&empty), new, writer.part);
    let changed = added.union(&modified);
    for entry in all.iter_mut().filter(|entry| !entry.is(writer, false)) {
        entry.fields = entry.fields.difference(&changed).difference(&removed);
    }
    let own = all.iter().position(|entry| entry.is(writer, false));
    let before = own.map(|at| all.remove(at));
    let owned = before.as_ref().map(|entry| entry.fields.clone()).unwrap_or_default();
    let fields = owned.difference(&removed).union(&changed);
    let time = match &before {
        Some(entry) if entry.fields == fields && changed.is_empty() && removed.is_empty() => entry.time.clone(),
        _ => seconds(now).as_str().unwrap_or_default().to_owned(),
    };
    all.push(Entry {
        manager: writer.manager.to_owned(),
        apply: false,
        part: writer.part.as_str().to_owned(),
        api_version: writer.api_version.to_owned(),
        time,
        fields,
    });
    put(new, all);
}

/// The object after an apply, with its `managedFields`.
///
/// # Errors
/// The conflicts, as pairs of a manager and the path of a field that it owns.
pub(super) fn apply(
    kind: &Kind,
    old: Option<&Value>,
    wanted: &Value,
    writer: &Writer<'_>,
    force: bool,
    now: Timestamp,
) -> Result<Value, Vec<(String, String)>> {
    let empty = kind.empty();
    let live = old.unwrap_or(&empty);
    let schema = kind.schema();
    let mut owned = of_value(schema, wanted);
    forget(kind, writer.part, &mut owned);
    let mut all = entries(old);
    if old.is_some() && all.is_empty() {
        if owned.is_empty() {
            return Ok(live.clone());
        }
        let mut fields = changes(kind, &kind.empty(), live, Part::Scale).added;
        forget(kind, Part::Scale, &mut fields);
        all.push(Entry {
            manager: "before-first-apply".to_owned(),
            apply: false,
            part: String::new(),
            api_version: kind.api_version.clone(),
            time: seconds(now).as_str().unwrap_or_default().to_owned(),
            fields,
        });
    }
    let last = all
        .iter()
        .position(|entry| entry.is(writer, true))
        .map(|at| all.remove(at));
    let mut merged = merge::merged(schema, live, wanted);
    if let Some(last) = &last {
        let others = all.iter().fold(owned.clone(), |sum, entry| sum.union(&entry.fields));
        merge::prune(schema, &mut merged, &last.fields, &others);
    }
    let Comparison {
        added,
        modified,
        removed,
    } = changes(kind, live, &merged, writer.part);
    let changed = added.union(&modified);
    let mut conflicts = Vec::new();
    for entry in &mut all {
        let taken = entry.fields.intersection(&changed);
        if !taken.is_empty() {
            conflicts.extend(taken.paths().into_iter().map(|path| (entry.manager.clone(), path)));
            entry.fields = entry.fields.difference(&taken);
        }
        entry.fields = entry.fields.difference(&removed);
    }
    if !force && !conflicts.is_empty() {
        return Err(conflicts);
    }
    let unchanged = last
        .as_ref()
        .is_some_and(|last| last.fields == owned && last.api_version == writer.api_version);
    let time = match &last {
        Some(last) if unchanged && changed.is_empty() && removed.is_empty() => last.time.clone(),
        _ => seconds(now).as_str().unwrap_or_default().to_owned(),
    };
    all.push(Entry {
        manager: writer.manager.to_owned(),
        apply: true,
        part: writer.part.as_str().to_owned(),
        api_version: writer.api_version.to_owned(),
        time,
        fields: owned,
    });
    put(&mut merged, all);
    Ok(merged)
}

/// Keeps the old object if a write changed only the times in `managedFields`.
pub(super) fn keep_times(old: &Object, new: &mut Object) {
    if new.has_same(old, "metadata") {
        return;
    }
    let strip = |object: &Object| {
        let whole = json!({"metadata": object.field("metadata")});
        let mut list = entries(Some(&whole));
        for entry in &mut list {
            entry.time.clear();
        }
        list.sort_by(|a, b| (&a.manager, a.apply, &a.part).cmp(&(&b.manager, b.apply, &b.part)));
        list
    };
    let before = metadata::field(old, "managedFields");
    if before == metadata::field(new, "managedFields") || strip(old) != strip(new) {
        return;
    }
    let mut candidate = new.clone();
    metadata::set(&mut candidate, "managedFields", before.cloned().unwrap_or_default());
    candidate.share(old);
    if candidate == *old {
        *new = candidate;
    }
}
