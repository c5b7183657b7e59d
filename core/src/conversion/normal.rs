//! The normal form of an object: what a conversion and its way back give without issues.
//!
//! Two objects with the same normal form describe the same machine. The normal form leaves out what
//! a controller or the API server writes, and what means the same as an absent field; it has what
//! the other API sets for all machines, such as the region of the cluster.

use serde_json::{Map, Value, json};

use super::infrastructure::IDENTITY;
use super::metadata::{self, Sort};
use super::pass::rule::Rule;
use super::pass::{Pass, Shared, is_empty};
use super::platforms::{self, Platform};
use super::selector;
use super::shape::Shape;
use super::tree::{self, Tree};
use super::{Api, Context};
use crate::api::infrastructure_cluster_x_k8s_io::GROUP;

/// The normal form of a Machine, MachineSet or MachineHealthCheck of either API, or of an
/// infrastructure machine.
pub fn normalise(object: &Value, context: &Context<'_>) -> Value {
    let mut object = object.clone();
    let Some(whole) = object.as_object_mut() else {
        return object;
    };
    whole.remove("status");
    let kind = whole.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
    let api = super::api_of(&Value::Object(whole.clone()));
    let side = api.unwrap_or(Api::ClusterApi);
    if let Some(Value::Object(metadata)) = whole.get_mut("metadata") {
        let name = metadata.get("name").cloned();
        metadata.retain(|field, _| !IDENTITY.contains(&field.as_str()));
        if let (Some(name), Some(_)) = (name, api) {
            metadata.insert(String::from("name"), name);
        }
        maps(metadata, side);
        if kind == "Machine" && side == Api::MachineApi {
            remove_computed(metadata);
        }
    }
    if let Some(Value::Object(spec)) = whole.get_mut("spec") {
        match api {
            Some(Api::MachineApi) => machine_api(spec, &kind, context),
            Some(Api::ClusterApi) => cluster_api(spec, &kind),
            None => infrastructure(spec, &kind, context),
        }
    }
    prune(&mut object);
    object
}

/// Leaves out labels and annotations that are not converted.
fn maps(metadata: &mut Map<String, Value>, side: Api) {
    for sort in [Sort::Labels, Sort::Annotations] {
        if let Some(Value::Object(entries)) = metadata.get_mut(sort.field()) {
            metadata::normalise(sort, entries, side);
        }
    }
}

/// Leaves out what controllers of the Machine API compute for a Machine.
fn remove_computed(metadata: &mut Map<String, Value>) {
    for field in ["labels", "annotations"] {
        if let Some(Value::Object(entries)) = metadata.get_mut(field) {
            metadata::remove_computed(entries);
        }
    }
}

fn machine_api(spec: &mut Map<String, Value>, kind: &str, context: &Context<'_>) {
    spec.remove("authoritativeAPI");
    let machine = if kind == "MachineSet" {
        spec.retain(|field, value| match field.as_str() {
            "minReadySeconds" => value.as_i64() != Some(0),
            "deletePolicy" => value.as_str() != Some(""),
            _ => true,
        });
        let Some(Value::Object(template)) = spec.get_mut("template") else {
            return;
        };
        if let Some(Value::Object(metadata)) = template.get_mut("metadata") {
            maps(metadata, Api::MachineApi);
        }
        template.get_mut("spec").and_then(Value::as_object_mut)
    } else if kind == "MachineHealthCheck" {
        spec.entry("nodeStartupTimeout").or_insert_with(|| "10m0s".into());
        spec.entry("maxUnhealthy").or_insert_with(|| "100%".into());
        None
    } else {
        Some(spec)
    };
    let Some(machine) = machine else { return };
    machine.remove("authoritativeAPI");
    if let Some(Value::Object(metadata)) = machine.get_mut("metadata") {
        maps(metadata, Api::MachineApi);
    }
    if let Some(Value::Object(hooks)) = machine.get_mut("lifecycleHooks") {
        for hooks in hooks.values_mut().filter_map(Value::as_array_mut) {
            hooks.sort_by_key(|hook| tree::text(hook, "name").unwrap_or_default().to_owned());
        }
    }
    let value = machine.get_mut("providerSpec").and_then(|spec| spec.get_mut("value"));
    let Some(Value::Object(value)) = value else { return };
    let kind = value
        .get("kind")
        .and_then(Value::as_str)
        .filter(|kind| !kind.is_empty());
    let Some(platform) = platforms::of_spec(kind, context) else {
        return;
    };
    value.insert(String::from("kind"), platform.provider_spec.into());
    value.insert(String::from("apiVersion"), platform.provider_spec_version.into());
    value.remove("metadata");
    if let Some(Value::Object(user_data)) = value.get_mut(platform.user_data) {
        user_data.remove("namespace");
    }
    platform_form(value, platform, Api::MachineApi, context);
}

fn cluster_api(spec: &mut Map<String, Value>, kind: &str) {
    let cluster = spec.get("clusterName").and_then(Value::as_str).map(str::to_owned);
    if let Some(Value::Object(selector)) = spec.get_mut("selector") {
        selector::remove_cluster(selector, cluster.as_deref());
    }
    let machine = if kind == "MachineSet" {
        tree::put(spec, "deletion.order", order(spec));
        let Some(Value::Object(template)) = spec.get_mut("template") else {
            return;
        };
        if let Some(Value::Object(metadata)) = template.get_mut("metadata") {
            maps(metadata, Api::ClusterApi);
        }
        template.get_mut("spec").and_then(Value::as_object_mut)
    } else if kind == "MachineHealthCheck" {
        let whole = Value::Object(spec.clone());
        for (path, value) in [
            ("checks.nodeStartupTimeoutSeconds", json!(600)),
            ("remediation.triggerIf.unhealthyLessThanOrEqualTo", json!("100%")),
        ] {
            if tree::get(&whole, path).is_none() {
                tree::put(spec, path, value);
            }
        }
        None
    } else {
        Some(spec)
    };
    let Some(machine) = machine else { return };
    if let Some(Value::Object(reference)) = machine.get_mut("infrastructureRef") {
        reference.remove("name");
        let group = reference.entry("apiGroup").or_insert(Value::Null);
        if is_empty(group) {
            *group = GROUP.into();
        }
    }
    if machine.get("minReadySeconds").and_then(Value::as_i64) == Some(0) {
        machine.remove("minReadySeconds");
    }
    tree::put(machine, "deletion.nodeDeletionTimeoutSeconds", json!(10));
    for taint in machine
        .get_mut("taints")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        if let Some(taint) = taint.as_object_mut() {
            taint.entry("propagation").or_insert_with(|| "Always".into());
        }
    }
}

/// The order of deletion, with its default.
fn order(spec: &Map<String, Value>) -> Value {
    let order = spec.get("deletion").and_then(|deletion| tree::text(deletion, "order"));
    order.unwrap_or("Random").into()
}

fn infrastructure(spec: &mut Map<String, Value>, kind: &str, context: &Context<'_>) {
    let (name, spec) = match kind.strip_suffix("Template") {
        Some(machine) => {
            let inner = spec.get_mut("template").and_then(|template| template.get_mut("spec"));
            let Some(inner) = inner.and_then(Value::as_object_mut) else {
                return;
            };
            (machine, inner)
        }
        None => (kind, spec),
    };
    if let Some(platform) = platforms::of_machine(name) {
        spec.remove("providerID");
        spec.remove("instanceID");
        platform_form(spec, platform, Api::ClusterApi, context);
    }
}

/// The normal form of a provider spec, or of the spec of an infrastructure machine.
fn platform_form(spec: &mut Map<String, Value>, platform: &'static Platform, side: Api, context: &Context<'_>) {
    let mut value = Value::Object(std::mem::take(spec));
    prune(&mut value);
    if let Value::Object(fields) = value {
        *spec = fields;
    }
    rules(spec, platform.rules, side);
    for rule in platform.rules {
        match rule {
            Rule::Fixed {
                api,
                at,
                value,
                written: true,
                ..
            } if *api == side => tree::put(spec, at, value.value()),
            Rule::Shared {
                at,
                cluster,
                infrastructure,
                ..
            } if side == Api::MachineApi => {
                if let Shared::Value { value, .. } = context.shared(platform.cluster, cluster, infrastructure) {
                    tree::put(spec, at, value.into());
                }
            }
            _ => {}
        }
    }
    cluster_defaults(spec, platform, side, context);
    (platform.normal)(side, spec);
}

/// Adds what the codecs written by hand take from the infrastructure cluster.
fn cluster_defaults(spec: &mut Map<String, Value>, platform: &'static Platform, side: Api, context: &Context<'_>) {
    const FIELDS: [&str; 1] = ["server"];
    // The conversion of an empty machine of the other API has exactly these fields.
    let env = super::pass::Env {
        context,
        to: side,
        template: false,
        control_plane: context.role == Some(super::Role::ControlPlane),
        provider_id: None,
        cluster_kind: platform.cluster,
        restored: None,
    };
    let mut pass = Pass::new(env, Tree::new("", json!({})), Tree::default());
    pass.apply(platform.rules);
    for field in FIELDS {
        if let Some(value) = pass.target.remove(field) {
            spec.entry(field).or_insert(value);
        }
    }
    let network = pass
        .target
        .get("networkInterfaces")
        .and_then(|interfaces| interfaces.get(0))
        .cloned();
    let interface = spec
        .get_mut("networkInterfaces")
        .and_then(|interfaces| interfaces.get_mut(0));
    if let (Some(Value::Object(known)), Some(Value::Object(interface))) = (network, interface)
        && platform.id == "gcp"
    {
        for (field, value) in known {
            interface.entry(field).or_insert(value);
        }
    }
}

/// Leaves out the values that mean the same as an absent field.
fn rules(spec: &mut Map<String, Value>, rules: &'static [Rule], side: Api) {
    for rule in rules {
        let at = rule.paths(side).first().copied().unwrap_or_default();
        if at.is_empty() || at.starts_with("Machine.") {
            continue;
        }
        let mut tree = Tree::new("", Value::Object(std::mem::take(spec)));
        let value = tree.take(at).and_then(|value| normal_value(rule, value, side));
        if let Value::Object(fields) = tree.value {
            *spec = fields;
        }
        if let Some(value) = value {
            tree::put(spec, at, value);
        }
    }
}

fn normal_value(rule: &'static Rule, value: Value, side: Api) -> Option<Value> {
    match rule {
        Rule::Field { shape, .. } => match (shape, shape.convert(side, &value)) {
            (_, Ok(None)) => None,
            (Shape::Quantity, Ok(converted)) => converted,
            (Shape::Tags, Ok(_)) => {
                let mut value = value;
                if let Value::Array(tags) = &mut value {
                    tags.sort_by_key(|tag| tree::text(tag, "name").unwrap_or_default().to_owned());
                }
                Some(value)
            }
            _ => Some(value),
        },
        Rule::List { rules: inner, .. } => {
            let Value::Array(items) = value else { return Some(value) };
            let items = items.into_iter().map(|mut item| {
                if let Value::Object(fields) = &mut item {
                    rules(fields, inner, side);
                    fixed(fields, inner, side);
                }
                item
            });
            let items: Vec<Value> = items.collect();
            (!items.is_empty()).then_some(items.into())
        }
        Rule::Object { rules: inner, .. } => {
            let Value::Object(mut fields) = value else {
                return Some(value);
            };
            rules(&mut fields, inner, side);
            (!fields.is_empty()).then_some(fields.into())
        }
        Rule::Only { neutral, .. } => {
            let gone = is_empty(&value) || neutral.iter().any(|neutral| neutral.is(&value));
            (!gone).then_some(value)
        }
        Rule::Fixed {
            value: wanted, written, ..
        } => (*written || !wanted.is(&value)).then_some(value),
        Rule::Local { .. } => None,
        Rule::Required { .. } | Rule::Shared { .. } | Rule::Hand(_) | Rule::Inner { .. } => Some(value),
    }
}

/// Adds the constants of the items of a list.
fn fixed(fields: &mut Map<String, Value>, rules: &'static [Rule], side: Api) {
    for rule in rules {
        if let Rule::Fixed {
            api,
            at,
            value,
            written: true,
            ..
        } = rule
            && *api == side
        {
            tree::put(fields, at, value.value());
        }
    }
}

/// Removes nulls, and strings, lists and objects that are empty, except where they mean something:
/// in maps of strings, and in fields that are requests by their presence.
fn prune(value: &mut Value) {
    const VERBATIM: &[&str] = &[
        "labels",
        "annotations",
        "matchLabels",
        "tags",
        "additionalTags",
        "additionalLabels",
        "gcpMetadata",
        "additionalMetadata",
        "serverMetadata",
    ];
    const PRESENT: &[&str] = &[
        "keyName",
        "sshKeyName",
        "serviceInstanceID",
        "spotMarketOptions",
        "spotVMOptions",
        "dynamicHostAllocation",
        "allowedAddressPairs",
    ];
    match value {
        Value::Object(map) => {
            map.retain(|field, inner| {
                if VERBATIM.contains(&field.as_str()) {
                    return !is_empty(inner);
                }
                prune(inner);
                if PRESENT.contains(&field.as_str()) {
                    return !inner.is_null();
                }
                !is_empty(inner)
            });
        }
        Value::Array(items) => items.iter_mut().for_each(prune),
        _ => {}
    }
}
