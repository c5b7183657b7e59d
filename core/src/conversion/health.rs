//! Converts MachineHealthChecks.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use super::machine::{self, metadata as new_metadata, name};
use super::metadata::{self, Hints};
use super::own_metadata;
use super::parts::{self, Work};
use super::selector::{Machines, Selector};
use super::shape::{Fault, fault};
use super::tree::{self, Tree};
use super::{Api, Context, Converted, Issue};
use crate::api::machine_openshift_io::{NAMESPACE, machine as machine_kind, machine_health_check};
use crate::api::{cluster_x_k8s_io, machine_openshift_io};

/// The largest number of conditions of a check in Cluster API.
const MOST_CONDITIONS: usize = 100;
/// How long a node may take to start in the Machine API if the check does not say.
const STARTUP_SECONDS: i64 = 600;
/// The shortest time in which a node must start that Cluster API accepts; 0 disables the check.
const LEAST_STARTUP_SECONDS: i64 = 30;
/// How many machines may be unhealthy if the check does not say.
const MAX_UNHEALTHY: &str = "100%";

/// The whole seconds of a Go duration such as `1h5m`.
fn seconds(value: &Value) -> Result<i64, Fault> {
    const MUST: Fault = fault("must be a duration such as 5m", "correct the value");
    const WHOLE: Fault = fault(
        "Cluster API stores whole seconds, and at most 2147483647 of them",
        "use whole seconds",
    );
    let mut rest = value.as_str().ok_or(MUST)?;
    if rest == "0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(MUST);
    }
    let mut nanoseconds: i128 = 0;
    while !rest.is_empty() {
        let number_end = rest
            .find(|letter: char| !letter.is_ascii_digit() && letter != '.')
            .ok_or(MUST)?;
        let (number, tail) = rest.split_at_checked(number_end).ok_or(MUST)?;
        let unit_end = tail
            .find(|letter: char| letter.is_ascii_digit() || letter == '.')
            .unwrap_or(tail.len());
        let (unit, tail) = tail.split_at_checked(unit_end).ok_or(MUST)?;
        let scale: i128 = match unit {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return Err(MUST),
        };
        nanoseconds += scaled(number, scale).ok_or(MUST)?;
        rest = tail;
    }
    let whole = nanoseconds / 1_000_000_000;
    if nanoseconds % 1_000_000_000 != 0 || whole > i128::from(i32::MAX) {
        return Err(WHOLE);
    }
    i64::try_from(whole).map_err(|_| WHOLE)
}

/// A decimal number times an integer, rounded up to an integer.
fn scaled(number: &str, scale: i128) -> Option<i128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if number.len() > 18 || (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return None;
    }
    let digits = |text: &str| {
        if text.is_empty() {
            Some(0)
        } else {
            text.parse::<i128>().ok()
        }
    };
    let base = 10_i128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let fraction = digits(fraction)?.checked_mul(scale)?;
    // A part of a nanosecond counts as one, so that it is refused like every other fraction.
    let fraction = (fraction + base - 1) / base;
    digits(whole)?.checked_mul(scale)?.checked_add(fraction)
}

/// A Go duration of whole seconds, as the Machine API writes it.
fn duration(seconds: i64) -> String {
    let (hours, minutes, rest) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match (hours, minutes) {
        (0, 0) => format!("{rest}s"),
        (0, _) => format!("{minutes}m{rest}s"),
        _ => format!("{hours}h{minutes}m{rest}s"),
    }
}

fn report(tree: &Tree, field: &str, fault: Fault, issues: &mut Vec<Issue>) {
    issues.push(Issue::blocks(tree.path(field), fault.reason, fault.way_out));
}

/// Converts a MachineHealthCheck of the Machine API.
pub(super) fn to_cluster_api(object: &Value, context: &Context<'_>) -> Converted {
    let mut work = Work::default();
    let (metadata_tree, mut spec) = machine::open(object, Api::ClusterApi, &mut work);
    let cluster = parts::cluster_name(object, &["metadata.labels"], context, &mut work.issues);
    let [mut labels, mut annotations] = own_metadata::to_cluster_api(metadata_tree, &mut work);
    if annotations
        .remove("machine.openshift.io/remediation-strategy")
        .is_some()
    {
        work.issues.push(Issue::blocks(
            "metadata.annotations[machine.openshift.io/remediation-strategy]",
            "Cluster API selects the remediation with a template and has no strategy",
            "remove the annotation, and set remediationTemplate",
        ));
    }
    let mut check = Map::new();
    check.insert(String::from("clusterName"), cluster.as_str().into());
    let selector = Selector::convert(&mut spec, Api::ClusterApi, None, &mut work);
    selector.check(Machines::Any, &mut work.issues);
    check.insert(String::from("selector"), selector.converted);
    checks_to_cluster_api(&mut spec, &mut check, &mut work);
    remediation_to_cluster_api(&mut spec, &mut check, &mut work);
    spec.take("authoritativeAPI");
    metadata::report_rest(&spec, Api::ClusterApi, &mut work.issues);
    if !cluster.is_empty() {
        labels.insert(cluster_x_k8s_io::label::CLUSTER.to_owned(), cluster.into());
    }
    work.carried.write(&mut annotations);
    let mut converted = json!({
        "apiVersion": cluster_x_k8s_io::API_VERSION,
        "kind": cluster_x_k8s_io::machine_health_check::KIND,
        "metadata": new_metadata(name(object), cluster_x_k8s_io::NAMESPACE, &labels, &annotations),
        "spec": check,
    });
    super::status::put(&mut converted, status(object));
    Converted::new(vec![converted], work.issues)
}

fn checks_to_cluster_api(spec: &mut Tree, check: &mut Map<String, Value>, work: &mut Work) {
    let issues = &mut work.issues;
    let startup = spec.take("nodeStartupTimeout").unwrap_or_else(|| "10m".into());
    match seconds(&startup) {
        Ok(seconds) if (1..LEAST_STARTUP_SECONDS).contains(&seconds) => report(
            spec,
            "nodeStartupTimeout",
            fault(
                "Cluster API accepts 0, or at least 30 seconds",
                "use 0, or at least 30s",
            ),
            issues,
        ),
        Ok(seconds) => {
            tree::put(check, "checks.nodeStartupTimeoutSeconds", seconds.into());
            if startup.as_str() != Some(&duration(seconds)) {
                work.carried.add("nodeStartupTimeout", startup, &seconds.into());
            }
        }
        Err(fault) => report(spec, "nodeStartupTimeout", fault.of(&startup), issues),
    }
    let mut conditions = Vec::new();
    let mut timeouts = Vec::new();
    for mut item in metadata::items(spec, "unhealthyConditions", issues) {
        let mut condition = Map::new();
        for field in ["type", "status"] {
            match item.take_text(field) {
                Some(text) => {
                    condition.insert(field.to_owned(), text.into());
                }
                None => issues.push(Issue::blocks(
                    item.path(field),
                    "must be a string that is not empty",
                    "set it",
                )),
            }
        }
        let timeout = item.take("timeout").unwrap_or_default();
        match seconds(&timeout) {
            Ok(seconds) => {
                condition.insert(String::from("timeoutSeconds"), seconds.into());
            }
            Err(fault) => report(&item, "timeout", fault.of(&timeout), issues),
        }
        timeouts.push(timeout);
        metadata::report_rest(&item, Api::ClusterApi, issues);
        conditions.push(Value::Object(condition));
    }
    if conditions.len() > MOST_CONDITIONS {
        report(
            spec,
            "unhealthyConditions",
            fault("Cluster API allows at most 100 conditions", "use fewer conditions"),
            issues,
        );
    }
    if conditions.is_empty() {
        report(
            spec,
            "unhealthyConditions",
            fault("the Machine API requires at least one condition", "add a condition"),
            issues,
        );
        return;
    }
    let written = timeouts_of(&conditions);
    if Value::from(timeouts.clone()) != written {
        work.carried.add("timeouts", timeouts.into(), &written);
    }
    tree::put(check, "checks.unhealthyNodeConditions", conditions.into());
}

/// The timeouts of converted conditions as the Machine API writes them.
fn timeouts_of(conditions: &[Value]) -> Value {
    let seconds = conditions
        .iter()
        .map(|condition| condition.get("timeoutSeconds").and_then(Value::as_i64));
    seconds
        .map(|seconds| Value::from(duration(seconds.unwrap_or_default())))
        .collect()
}

fn remediation_to_cluster_api(spec: &mut Tree, check: &mut Map<String, Value>, work: &mut Work) {
    let issues = &mut work.issues;
    let most = spec.take("maxUnhealthy").unwrap_or_else(|| MAX_UNHEALTHY.into());
    match most_unhealthy(&most) {
        Ok(()) => tree::put(check, "remediation.triggerIf.unhealthyLessThanOrEqualTo", most),
        Err(fault) => report(spec, "maxUnhealthy", fault.of(&most), issues),
    }
    let mut template = spec.branch("remediationTemplate");
    if template.value.is_null() {
        return;
    }
    let namespace = template.take_text("namespace").unwrap_or_default();
    if !namespace.is_empty() && namespace != NAMESPACE {
        report(
            &template,
            "namespace",
            fault(
                "Cluster API looks the template up in the namespace of the MachineHealthCheck",
                "use a template in the namespace of the MachineHealthCheck",
            ),
            issues,
        );
    }
    if namespace.is_empty() {
        work.carried.add("templateNamespace", "".into(), &"".into());
    }
    for field in ["apiVersion", "kind", "name"] {
        match template.take_text(field) {
            Some(text) => tree::put(check, &format!("remediation.templateRef.{field}"), text.into()),
            None => report(&template, field, fault("Cluster API requires it", "set it"), issues),
        }
    }
    metadata::report_rest(&template, Api::ClusterApi, issues);
}

/// Checks an integer or a percentage.
fn most_unhealthy(value: &Value) -> Result<(), Fault> {
    let fits = match value {
        Value::Number(number) => number
            .as_i64()
            .is_some_and(|number| (0..=i64::from(i32::MAX)).contains(&number)),
        Value::String(text) => {
            let digits = text.strip_suffix('%').filter(|digits| !digits.starts_with('+'));
            digits.is_some_and(|digits| digits.parse::<u8>().is_ok_and(|number| number <= 100))
        }
        _ => false,
    };
    let must = Fault {
        within: String::new(),
        reason: Cow::Borrowed("must be an integer or a percentage such as 40%"),
        way_out: Cow::Borrowed("correct the value"),
    };
    fits.then_some(()).ok_or(must)
}

/// Converts a MachineHealthCheck of Cluster API.
pub(super) fn to_machine_api(object: &Value, context: &Context<'_>) -> Converted {
    let mut work = Work::default();
    let (metadata_tree, mut spec) = machine::open(object, Api::MachineApi, &mut work);
    let cluster = spec.take_text("clusterName").unwrap_or_default();
    let cluster = parts::cluster_to_machine_api(&cluster, "spec.clusterName", context, &mut work.issues);
    let hints = Hints {
        cluster,
        ..Hints::default()
    };
    let [labels, mut annotations] = own_metadata::to_machine_api(metadata_tree, hints, &mut work);
    let mut check = Map::new();
    let selector = Selector::convert(
        &mut spec,
        Api::MachineApi,
        tree::text(object, "spec.clusterName"),
        &mut work,
    );
    selector.check(Machines::Any, &mut work.issues);
    check.insert(String::from("selector"), selector.converted);
    checks_to_machine_api(&mut spec, &mut check, &mut work);
    remediation_to_machine_api(&mut spec, &mut check, &mut work);
    metadata::report_rest(&spec, Api::MachineApi, &mut work.issues);
    let authority = context
        .mirror
        .and_then(|mirror| tree::text(mirror, "spec.authoritativeAPI"));
    if let Some(authority) = authority {
        check.insert(String::from("authoritativeAPI"), authority.into());
    }
    work.carried.write(&mut annotations);
    let mut converted = json!({
        "apiVersion": machine_kind::API_VERSION,
        "kind": machine_health_check::KIND,
        "metadata": new_metadata(name(object), machine_openshift_io::NAMESPACE, &labels, &annotations),
        "spec": check,
    });
    super::status::put(&mut converted, status(object));
    Converted::new(vec![converted], work.issues)
}

/// Takes whole seconds.
fn take_seconds(tree: &mut Tree, field: &str, issues: &mut Vec<Issue>) -> Option<i64> {
    let value = tree.take(field)?;
    match super::shape::integer(&value, 0, i64::from(i32::MAX)) {
        Ok(seconds) => Some(seconds),
        Err(fault) => {
            report(tree, field, fault, issues);
            None
        }
    }
}

fn checks_to_machine_api(spec: &mut Tree, check: &mut Map<String, Value>, work: &mut Work) {
    let issues = &mut work.issues;
    let mut checks = spec.branch("checks");
    let startup = take_seconds(&mut checks, "nodeStartupTimeoutSeconds", issues).unwrap_or(STARTUP_SECONDS);
    let original = work.restored.original("nodeStartupTimeout", &startup.into());
    let startup = original.cloned().unwrap_or_else(|| duration(startup).into());
    check.insert(String::from("nodeStartupTimeout"), startup);
    if checks
        .take("unhealthyMachineConditions")
        .is_some_and(|value| !super::pass::is_empty(&value))
    {
        report(
            &checks,
            "unhealthyMachineConditions",
            fault(
                "the Machine API checks conditions of nodes only",
                "remove them, or use conditions of nodes",
            ),
            issues,
        );
    }
    let mut conditions = Vec::new();
    for mut item in metadata::items(&mut checks, "unhealthyNodeConditions", issues) {
        let mut condition = Map::new();
        for field in ["type", "status"] {
            if let Some(text) = item.take_text(field) {
                condition.insert(field.to_owned(), text.into());
            } else {
                report(
                    &item,
                    field,
                    fault("must be a string that is not empty", "set it"),
                    issues,
                );
            }
        }
        let seconds = take_seconds(&mut item, "timeoutSeconds", issues).unwrap_or_default();
        condition.insert(String::from("timeoutSeconds"), seconds.into());
        metadata::report_rest(&item, Api::MachineApi, issues);
        conditions.push(Value::Object(condition));
    }
    if conditions.is_empty() {
        report(
            &checks,
            "unhealthyNodeConditions",
            fault(
                "the Machine API requires at least one condition of a node",
                "add a condition, such as Ready with the status Unknown",
            ),
            issues,
        );
    }
    metadata::report_rest(&checks, Api::MachineApi, issues);
    let written = timeouts_of(&conditions);
    let original = work.restored.original("timeouts", &written).cloned().unwrap_or(written);
    let timeouts = original.as_array().cloned().unwrap_or_default();
    for (condition, timeout) in conditions.iter_mut().zip(timeouts) {
        if let Some(fields) = condition.as_object_mut() {
            fields.remove("timeoutSeconds");
            fields.insert(String::from("timeout"), timeout);
        }
    }
    if !conditions.is_empty() {
        check.insert(String::from("unhealthyConditions"), conditions.into());
    }
}

fn remediation_to_machine_api(spec: &mut Tree, check: &mut Map<String, Value>, work: &mut Work) {
    let issues = &mut work.issues;
    let mut remediation = spec.branch("remediation");
    let most = remediation.take("triggerIf.unhealthyLessThanOrEqualTo");
    let most = most.unwrap_or_else(|| MAX_UNHEALTHY.into());
    match most_unhealthy(&most) {
        Ok(()) => {
            check.insert(String::from("maxUnhealthy"), most);
        }
        Err(fault) => report(&remediation, "triggerIf.unhealthyLessThanOrEqualTo", fault, issues),
    }
    if remediation
        .take("triggerIf.unhealthyInRange")
        .is_some_and(|value| !super::pass::is_empty(&value))
    {
        report(
            &remediation,
            "triggerIf.unhealthyInRange",
            fault(
                "the Machine API has a maximum of unhealthy machines, and no range",
                "use unhealthyLessThanOrEqualTo",
            ),
            issues,
        );
    }
    let mut template = remediation.branch("templateRef");
    for field in ["apiVersion", "kind", "name"] {
        if let Some(text) = template.take_text(field) {
            tree::put(check, &format!("remediationTemplate.{field}"), text.into());
        }
    }
    metadata::report_rest(&template, Api::MachineApi, issues);
    metadata::report_rest(&remediation, Api::MachineApi, issues);
    if check.contains_key("remediationTemplate") && work.restored.original("templateNamespace", &"".into()).is_none() {
        tree::put(check, "remediationTemplate.namespace", NAMESPACE.into());
    }
}

/// The counters that both APIs have.
fn status(object: &Value) -> Map<String, Value> {
    let mut status = Map::new();
    for field in ["expectedMachines", "currentHealthy", "remediationsAllowed"] {
        if let Some(value) = tree::get(object, &format!("status.{field}")) {
            status.insert(field.to_owned(), value.clone());
        }
    }
    status
}
