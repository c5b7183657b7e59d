//! Explains the rules: what becomes of a field in the other API, and the pages of the
//! documentation.

mod field;

use field::Field;

use super::Api;
use super::pass::rule::{Literal, Rule};
use super::platforms::{PLATFORMS, Platform};

/// The name of the page about what all platforms have in common.
const COMMON: &str = "all-platforms";

/// The fields of both APIs that all platforms have in common: of the Machine API, of Cluster API,
/// and how they are converted.
const COMMON_FIELDS: &[(&str, &str, &str)] = &[
    (
        "metadata.labels",
        "metadata.labels",
        "one set of labels in Cluster API; the role and the type are \
      `node-role.kubernetes.io/<role>`; the difference is carried in the annotation `capstan.dev/conversion-data`; \
      those of a Machine that controllers compute (`machine.openshift.io/zone`, `region` and `instance-type`) are \
      computed again on the way back",
    ),
    (
        "spec.metadata.labels",
        "metadata.labels",
        "labels of the node, which win over those of the machine; a key of the domain `cluster.x-k8s.io` blocks, \
      because Cluster API would read it on the Machine",
    ),
    (
        "metadata.annotations",
        "metadata.annotations",
        "as labels; `machine.openshift.io/delete-machine` is \
      `cluster.x-k8s.io/delete-machine`; not converted: `cluster.x-k8s.io/paused` (it pauses one object, not its \
      counterpart; `capstan convert` reports it), `kubectl.kubernetes.io/last-applied-configuration`, \
      `cluster.x-k8s.io/conversion-data`, and `machine.openshift.io/instance-state` of a Machine",
    ),
    (
        "spec.metadata.annotations",
        "metadata.annotations",
        "annotations of the node; a key of the domain `cluster.x-k8s.io` blocks",
    ),
    (
        "metadata.name",
        "metadata.name",
        "same; also of the infrastructure machine",
    ),
    (
        "metadata.namespace",
        "metadata.namespace",
        "always `openshift-machine-api`, and `openshift-cluster-api`",
    ),
    (
        "metadata.finalizers",
        "metadata.finalizers",
        "not converted: those of the controllers of each API",
    ),
    (
        "metadata.ownerReferences",
        "metadata.ownerReferences",
        "the owner of the other API, if the sync controller knows it",
    ),
    (
        "status",
        "status",
        "converted for the sync controller; left out of YAML output",
    ),
    (
        "spec.metadata.name",
        "",
        "blocks: Cluster API does not pass it to the node",
    ),
    (
        "spec.metadata.generateName",
        "",
        "blocks: Cluster API does not pass it to the node",
    ),
    (
        "spec.metadata.namespace",
        "",
        "blocks: Cluster API does not pass it to the node",
    ),
    (
        "spec.metadata.ownerReferences",
        "",
        "loses: Cluster API does not pass it to the node",
    ),
    (
        "spec.lifecycleHooks.preDrain",
        "metadata.annotations",
        "`pre-drain.delete.hook.machine.cluster.x-k8s.io/<name>: <owner>`, in the order of names",
    ),
    (
        "spec.lifecycleHooks.preTerminate",
        "metadata.annotations",
        "`pre-terminate.delete.hook.machine.cluster.x-k8s.io/<name>: <owner>`, in the order of names",
    ),
    (
        "spec.providerID",
        "spec.providerID",
        "same; also of the infrastructure machine; not in a template",
    ),
    (
        "spec.taints",
        "spec.taints",
        "same, with the propagation `Always`; loses timeAdded; one for each key and effect; a key that Cluster API \
      reserves blocks; Cluster API accepts taints only with its feature gate `MachineTaintPropagation`",
    ),
    (
        "spec.authoritativeAPI",
        "",
        "not converted: it belongs to the migration",
    ),
    (
        "",
        "spec.infrastructureRef",
        "the infrastructure machine or its template, made from the provider spec",
    ),
    (
        "spec.providerSpec.value.apiVersion",
        "",
        "must be that of the platform, or a former group of it",
    ),
    (
        "",
        "spec.clusterName",
        "the name in the Infrastructure, or else the label `machine.openshift.io/cluster-api-cluster`",
    ),
    (
        "",
        "spec.version",
        "blocks: the Machine API does not set the Kubernetes version",
    ),
    (
        "",
        "spec.readinessGates",
        "blocks: the Machine API has no readiness gates",
    ),
    (
        "",
        "spec.bootstrap.configRef",
        "blocks: the Machine API bootstraps a machine from a Secret",
    ),
    (
        "",
        "spec.deletion.nodeDeletionTimeoutSeconds",
        "must be 10: the Machine API always uses 10 seconds",
    ),
    (
        "",
        "spec.deletion.nodeDrainTimeoutSeconds",
        "blocks: the Machine API has no such timeout",
    ),
    (
        "",
        "spec.deletion.nodeVolumeDetachTimeoutSeconds",
        "blocks: the Machine API has no such timeout",
    ),
    ("spec.replicas", "spec.replicas", "same, of a MachineSet"),
    (
        "spec.minReadySeconds",
        "spec.template.spec.minReadySeconds",
        "of a MachineSet; 0 is the same as absent",
    ),
    (
        "spec.deletePolicy",
        "spec.deletion.order",
        "of a MachineSet; the empty policy is `Random`, and is carried",
    ),
    (
        "spec.selector",
        "spec.selector",
        "of a MachineSet or MachineHealthCheck; labels as above, without the label of the Cluster; the source selector is \
         carried",
    ),
    (
        "",
        "spec.machineNaming",
        "blocks: the Machine API generates the names of Machines",
    ),
    (
        "spec.unhealthyConditions",
        "spec.checks.unhealthyNodeConditions",
        "of a MachineHealthCheck; whole seconds",
    ),
    (
        "spec.nodeStartupTimeout",
        "spec.checks.nodeStartupTimeoutSeconds",
        "of a MachineHealthCheck; whole seconds",
    ),
    (
        "spec.maxUnhealthy",
        "spec.remediation.triggerIf.unhealthyLessThanOrEqualTo",
        "of a MachineHealthCheck",
    ),
    (
        "spec.remediationTemplate",
        "spec.remediation.templateRef",
        "of a MachineHealthCheck; in its own namespace",
    ),
    (
        "",
        "spec.checks.unhealthyMachineConditions",
        "blocks: the Machine API checks conditions of nodes only",
    ),
    (
        "",
        "spec.remediation.triggerIf.unhealthyInRange",
        "blocks: the Machine API has a maximum, and no range",
    ),
];

/// The names of the documentation pages: one for what all platforms have in common, and one for
/// each platform.
pub fn pages() -> Vec<&'static str> {
    let platforms = PLATFORMS.iter().map(|platform| platform.id);
    std::iter::once(COMMON).chain(platforms).collect()
}

/// The lines of the page about what all platforms have in common.
fn common_lines() -> Vec<Line> {
    let cell = |path: &str| {
        if path.is_empty() {
            String::new()
        } else {
            format!("`{path}`")
        }
    };
    let lines = COMMON_FIELDS.iter().map(|(machine_api, cluster_api, text)| Line {
        machine_api: cell(machine_api),
        cluster_api: cell(cluster_api),
        text: (*text).to_owned(),
    });
    lines.collect()
}

/// A line of the documentation: the field of each API, and how it is converted.
struct Line {
    machine_api: String,
    cluster_api: String,
    text: String,
}

fn of_path(side: Api, prefix: &str, at: &str) -> String {
    match (side, at.strip_prefix("Machine.")) {
        (Api::ClusterApi, Some(rest)) => format!("Machine spec.{rest}"),
        _ => format!("{prefix}{at}"),
    }
}

fn literal(value: &Literal) -> String {
    format!("`{}`", value.value())
}

fn lines(rules: &'static [Rule], machine_api: &str, cluster_api: &str, found: &mut Vec<Line>) {
    for rule in rules {
        let all = |side: Api, prefix: &str| {
            let paths = rule
                .paths(side)
                .iter()
                .map(|at| format!("`{}`", of_path(side, prefix, at)));
            paths.collect::<Vec<_>>().join(", ")
        };
        let (of_machine, of_cluster) = (all(Api::MachineApi, machine_api), all(Api::ClusterApi, cluster_api));
        let text = match rule {
            Rule::Field { shape, .. } => shape.about(),
            Rule::Object { rules, .. } => {
                let [of_machine, of_cluster] = nested(rule, machine_api, cluster_api, ".");
                lines(rules, &of_machine, &of_cluster, found);
                continue;
            }
            Rule::List { rules, .. } => {
                let [of_machine, of_cluster] = nested(rule, machine_api, cluster_api, "[].");
                lines(rules, &of_machine, &of_cluster, found);
                continue;
            }
            Rule::Inner {
                machine_api: of_machine,
                cluster_api: of_cluster,
                rules,
            } => {
                let prefix = |outer: &str, path: &str| match path {
                    "" => outer.to_owned(),
                    path => format!("{outer}{path}."),
                };
                lines(
                    rules,
                    &prefix(machine_api, of_machine),
                    &prefix(cluster_api, of_cluster),
                    found,
                );
                continue;
            }
            Rule::Only {
                neutral,
                severity,
                reason,
                way_out,
                ..
            } => {
                let neutral: Vec<String> = neutral.iter().map(literal).collect();
                let except = match neutral.as_slice() {
                    [] => String::new(),
                    neutral => format!(", except {}", neutral.join(", ")),
                };
                format!("{}{except}: {reason}; {way_out}", severity.as_str().to_lowercase())
            }
            Rule::Fixed { value, reason, .. } => format!("must be {}: {reason}", literal(value)),
            Rule::Required { .. } => continue,
            Rule::Shared {
                cluster, ignores_case, ..
            } => {
                let paths: Vec<String> = cluster.iter().map(|path| format!("`spec.{path}`")).collect();
                let case = if *ignores_case { ", ignoring case" } else { "" };
                format!("must equal {} of the infrastructure cluster{case}", paths.join(" or "))
            }
            Rule::Local { about, .. } => (*about).to_owned(),
            Rule::Hand(hand) => hand.about.to_owned(),
        };
        found.push(Line {
            machine_api: of_machine,
            cluster_api: of_cluster,
            text,
        });
    }
}

/// The prefixes of the fields in an object or in an item of a list.
fn nested(rule: &'static Rule, machine_api: &str, cluster_api: &str, end: &str) -> [String; 2] {
    [(Api::MachineApi, machine_api), (Api::ClusterApi, cluster_api)].map(|(side, prefix)| {
        let at = rule.paths(side).first().copied().unwrap_or_default();
        format!("{prefix}{at}{end}")
    })
}

fn all_lines(platform: &'static Platform) -> Vec<Line> {
    let mut found = vec![Line {
        machine_api: format!("`{}.name`", platform.user_data),
        cluster_api: String::from("`Machine spec.bootstrap.dataSecretName`"),
        text: String::from("the Secret with the user data, which must exist in the namespaces of both APIs"),
    }];
    lines(platform.rules, "", "", &mut found);
    found
}

/// The documentation page of a platform, in Markdown. `None` for an unknown page.
pub fn page(id: &str) -> Option<String> {
    if id == COMMON {
        let head = "# Conversion of fields that all platforms have in common\n\n\
                    This page is generated from the conversion. Do not edit it.\n\n\
                    - Machine API: `machine.openshift.io/v1beta1`\n\
                    - Cluster API: `cluster.x-k8s.io/v1beta2`\n\
                    - CRDs that the results are checked against: `sigs.k8s.io/cluster-api` v1.14.0, and\n  \
                    `github.com/openshift/api` v0.0.0-20260420151639-34e60874783e\n\n\
                    A field without a line is an issue, and blocks the conversion. The status is converted for the \
                    sync\ncontroller, and is never an issue.\n\n";
        return Some(format!("{head}{}", table(common_lines())));
    }
    let platform = PLATFORMS.iter().find(|platform| platform.id == id)?;
    let mut text = format!(
        "# Conversion of {} machines\n\n\
         This page is generated from the rules of the conversion. Do not edit it.\n\n\
         - Machine API: `{}` (`{}`)\n\
         - Cluster API: `{}` (`infrastructure.cluster.x-k8s.io/{}`) and `Machine`\n\
         - Infrastructure cluster: `{}`\n\
         - CRD that the results are checked against:\n  {}\n\n\
         A field without a line is an issue, and blocks the conversion. [All platforms](all-platforms.md)\n\
         has the fields of Machines, MachineSets and MachineHealthChecks.\n\n",
        platform.title,
        platform.provider_spec,
        platform.provider_spec_version,
        platform.machine,
        platform.version,
        platform.cluster,
        platform.crd,
    );
    text.push_str(&table(all_lines(platform)));
    Some(text)
}

fn table(lines: Vec<Line>) -> String {
    let mut text = String::from("| Machine API | Cluster API | conversion |\n|---|---|---|\n");
    let cell = |text: &str| {
        if text.is_empty() {
            String::from("-")
        } else {
            text.replace('|', "\\|")
        }
    };
    for line in lines {
        let (machine_api, cluster_api) = (cell(&line.machine_api), cell(&line.cluster_api));
        text.push_str(&format!("| {machine_api} | {cluster_api} | {} |\n", cell(&line.text)));
    }
    text
}

/// What becomes of a field on each platform, one line for each rule about it. Empty if no rule
/// knows it. `platform` limits the answer to one page.
pub fn explain(field: &str, platform: Option<&str>) -> Vec<String> {
    let field = Field::new(field);
    let (whole, short) = (field.whole.as_str(), field.short.as_str());
    let mut answers = Vec::new();
    for line in common_lines() {
        let known = [&line.machine_api, &line.cluster_api];
        if known
            .iter()
            .any(|cell| is_about(cell, whole) || (!field.is_common() && is_about(cell, &format!("spec.{short}"))))
        {
            answers.push(answer("all platforms", ["Machine API", "Cluster API"], &line));
        }
    }
    for known in PLATFORMS
        .iter()
        .filter(|known| platform.is_none_or(|id| id == known.id))
        .filter(|_| !field.is_common())
    {
        for line in all_lines(known) {
            if is_about(&line.machine_api, short) || is_about(&line.cluster_api, short) {
                answers.push(answer(known.title, [known.provider_spec, known.machine], &line));
            }
        }
    }
    answers
}

fn answer(title: &str, [machine_api, cluster_api]: [&str; 2], line: &Line) -> String {
    let [from, to] = [&line.machine_api, &line.cluster_api].map(|cell| cell.replace('`', ""));
    match (from.as_str(), to.as_str()) {
        ("", to) => format!("{title}: {cluster_api} {to}: {}", line.text),
        (from, "") => format!("{title}: {machine_api} {from}: {}", line.text),
        (from, to) => format!("{title}: {machine_api} {from} <-> {cluster_api} {to}: {}", line.text),
    }
}

/// Whether a cell names the field, a field in it, or an object that it is in.
fn is_about(cell: &str, field: &str) -> bool {
    cell.split(", ").any(|path| {
        let path = path.trim_matches('`');
        let path = path.strip_prefix("Machine spec.").unwrap_or(path);
        let within = |inner: &str, outer: &str| {
            inner
                .strip_prefix(outer)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        !path.is_empty() && (within(path, field) || within(field, path))
    })
}
