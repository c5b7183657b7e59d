//! Converts Machines, MachineSets and MachineHealthChecks between the Machine API and Cluster API.
//!
//! [`to_cluster_api`] and [`to_machine_api`] return the objects of the other API and an [`Issue`]
//! for everything that the other API cannot express. The rules of a platform are data
//! (`platforms`), and an interpreter (`pass`) takes each field out of the source, so that a field
//! without a rule is left over and becomes an issue. Without issues, the way back restores the
//! object. What the other API cannot hold but does not change a machine, such as the distinction
//! between labels of a machine and of its node, is carried in an annotation (`carried`).
//!
//! Must never: lose a value without an issue, invent a value, or depend on anything but its
//! arguments.
//!
//! Source: the Converting Machine API to Cluster API enhancement; the types of `openshift/api`; the
//! CRDs of Cluster API and of its infrastructure providers.

mod carried;
mod context;
mod explain;
mod health;
mod infrastructure;
mod load_balancers;
mod machine;
mod machine_set;
mod metadata;
mod normal;
mod own_metadata;
mod parts;
mod pass;
mod platforms;
mod selector;
mod shape;
mod status;
mod taints;
mod tree;

#[cfg(test)]
mod tests;

use serde_json::Value;

use crate::api::machine_openshift_io::{self, machine as machine_kind, machine_health_check, machine_set as set};
use crate::api::{cluster_x_k8s_io, config_openshift_io, infrastructure_cluster_x_k8s_io};
use crate::model::FieldPath;
use crate::model::distance;
pub use carried::CARRIED;
pub use context::{Context, Lookup, Role};
pub use explain::{explain, page, pages};
pub use infrastructure::{
    cluster_kind, cluster_kind_of_infrastructure, cluster_name_of, cluster_of, cluster_of_object, hand_over,
    infrastructure_of,
};
pub use normal::normalise;
pub use platforms::{platform_type, platform_types};

/// One of the two APIs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Api {
    /// `machine.openshift.io`.
    MachineApi,
    /// `cluster.x-k8s.io`.
    ClusterApi,
}

impl Api {
    /// The other API.
    pub fn other(self) -> Self {
        match self {
            Self::MachineApi => Self::ClusterApi,
            Self::ClusterApi => Self::MachineApi,
        }
    }

    /// The name of the API in a sentence.
    pub fn title(self) -> &'static str {
        match self {
            Self::MachineApi => "the Machine API",
            Self::ClusterApi => "Cluster API",
        }
    }
}

/// The effect of an issue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The object cannot be converted.
    Blocks,
    /// The object can be converted, but the value is lost.
    Loses,
}

impl Severity {
    /// The name of the severity, as `capstan convert` prints it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Blocks => "Blocks",
            Self::Loses => "Loses",
        }
    }
}

/// A field that the other API cannot express.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Issue {
    /// The effect.
    pub severity: Severity,
    /// The field, from the root of the source. A field of the infrastructure object starts with the
    /// kind of that object and a space.
    pub path: FieldPath,
    /// The reason, as a clause.
    pub reason: String,
    /// What to do, as a clause.
    pub way_out: String,
}

impl Issue {
    /// An issue that prevents the conversion.
    fn blocks(path: impl Into<String>, reason: impl Into<String>, way_out: impl Into<String>) -> Self {
        Self {
            severity: Severity::Blocks,
            path: FieldPath::new(path),
            reason: reason.into(),
            way_out: way_out.into(),
        }
    }

    /// An issue about a value that is lost.
    fn loses(path: impl Into<String>, reason: impl Into<String>, way_out: impl Into<String>) -> Self {
        Self {
            severity: Severity::Loses,
            ..Self::blocks(path, reason, way_out)
        }
    }
}

/// The result of a conversion.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Converted {
    /// The objects of the other API: the Machine, MachineSet or MachineHealthCheck, then its
    /// infrastructure object. With issues, what could be converted.
    pub objects: Vec<Value>,
    /// What could not be converted, blocking issues first, then by path.
    pub issues: Vec<Issue>,
}

impl Converted {
    /// A result with its issues in order.
    fn new(objects: Vec<Value>, mut issues: Vec<Issue>) -> Self {
        issues.sort();
        issues.dedup();
        Self { objects, issues }
    }

    /// Whether the object cannot be converted.
    pub fn is_blocked(&self) -> bool {
        self.issues.iter().any(|issue| issue.severity == Severity::Blocks)
    }
}

/// The API of an object that can be converted. `None` for every other kind.
pub fn api_of(object: &Value) -> Option<Api> {
    let group = tree::text(object, "apiVersion")?.split_once('/')?.0;
    match (group, tree::text(object, "kind")?) {
        (machine_openshift_io::GROUP, machine_kind::KIND | set::KIND | machine_health_check::KIND) => {
            Some(Api::MachineApi)
        }
        (cluster_x_k8s_io::GROUP, machine_kind::KIND | set::KIND | machine_health_check::KIND) => Some(Api::ClusterApi),
        _ => None,
    }
}

/// Converts a Machine, MachineSet or MachineHealthCheck of the Machine API.
pub fn to_cluster_api(object: &Value, context: &Context<'_>) -> Converted {
    if let Some(converted) = refuse(object, Api::MachineApi) {
        return converted;
    }
    match tree::text(object, "kind") {
        Some(machine_kind::KIND) => machine::to_cluster_api(object, context),
        Some(set::KIND) => machine_set::to_cluster_api(object, context),
        _ => health::to_cluster_api(object, context),
    }
}

/// Converts a Machine, MachineSet or MachineHealthCheck of Cluster API.
/// `context.infrastructure_machine` is its infrastructure object.
pub fn to_machine_api(object: &Value, context: &Context<'_>) -> Converted {
    if let Some(converted) = refuse(object, Api::ClusterApi) {
        return converted;
    }
    match tree::text(object, "kind") {
        Some(machine_kind::KIND) => machine::to_machine_api(object, context),
        Some(set::KIND) => machine_set::to_machine_api(object, context),
        _ => health::to_machine_api(object, context),
    }
}

/// Converts an object to the other API, whichever it is from. An infrastructure machine, or a
/// template of them, is checked alone.
pub fn convert(object: &Value, context: &Context<'_>) -> Converted {
    let group = tree::text(object, "apiVersion").and_then(|version| version.split_once('/'));
    match (api_of(object), group) {
        (Some(Api::MachineApi), _) => to_cluster_api(object, context),
        (Some(Api::ClusterApi), _) => to_machine_api(object, context),
        (None, Some((infrastructure_cluster_x_k8s_io::GROUP, _))) => infrastructure::alone(object, context),
        (None, _) => match misspelt_group(object) {
            Some(issue) => Converted::new(Vec::new(), vec![issue]),
            None => refuse(object, Api::MachineApi).unwrap_or_default(),
        },
    }
}

/// The group that an object is probably meant to have: its own group is similar, and no API server
/// knows it.
pub fn intended_group(object: &Value) -> Option<&'static str> {
    const KNOWN: [&str; 4] = [
        machine_openshift_io::GROUP,
        cluster_x_k8s_io::GROUP,
        infrastructure_cluster_x_k8s_io::GROUP,
        config_openshift_io::GROUP,
    ];
    let (group, _) = tree::text(object, "apiVersion")?.split_once('/')?;
    if KNOWN.contains(&group) {
        return None;
    }
    let similar = KNOWN.iter().filter_map(|known| Some((distance(known, group)?, *known)));
    similar.min().map(|(_, known)| known)
}

/// The issue of an object that looks like one to convert, except for its group. A pipeline would
/// otherwise drop it without a word.
pub fn misspelt_group(object: &Value) -> Option<Issue> {
    let kind = tree::text(object, "kind")?;
    let version = tree::text(object, "apiVersion").unwrap_or_default();
    let group = version.split_once('/').map_or("", |(group, _)| group);
    let of_both = [machine_openshift_io::GROUP, cluster_x_k8s_io::GROUP];
    if of_both.contains(&group) {
        return None;
    }
    let intended = intended_group(object).filter(|group| of_both.contains(group));
    let is_known = KINDS.iter().any(|known| known.eq_ignore_ascii_case(kind));
    let is_similar = KINDS.iter().any(|known| distance(known, kind).is_some());
    let is_meant = is_known || (is_similar && intended.is_some());
    if !is_meant {
        return None;
    }
    let (machine_api, cluster_api) = (machine_kind::API_VERSION, cluster_x_k8s_io::API_VERSION);
    let way_out = match intended {
        Some(machine_openshift_io::GROUP) => format!("use {machine_api}"),
        Some(_) => format!("use {cluster_api}"),
        None => format!("use {machine_api} or {cluster_api}, or leave the object out"),
    };
    Some(Issue::blocks(
        "apiVersion",
        format!("Capstan knows no {kind} in {version:?}"),
        way_out,
    ))
}

/// The kinds that can be converted, in both APIs.
const KINDS: [&str; 3] = [machine_kind::KIND, set::KIND, machine_health_check::KIND];

/// The result for an object that is not of this API, or of another version.
fn refuse(object: &Value, from: Api) -> Option<Converted> {
    let known = match from {
        Api::MachineApi => machine_openshift_io::machine::API_VERSION,
        Api::ClusterApi => cluster_x_k8s_io::API_VERSION,
    };
    let version = tree::text(object, "apiVersion").unwrap_or_default();
    let issue = if api_of(object) != Some(from) {
        let kind = tree::text(object, "kind").unwrap_or_default();
        let same = |known: &&str| known.eq_ignore_ascii_case(kind);
        match KINDS.into_iter().find(same) {
            Some(known) if known != kind => Issue::blocks(
                "kind",
                format!("no API server knows the kind {kind:?}: upper and lower case matter"),
                format!("set it to {known}"),
            ),
            _ => Issue::blocks(
                "kind",
                format!("a {kind} has no counterpart in the other API"),
                "convert only Machines, MachineSets and MachineHealthChecks",
            ),
        }
    } else if version != known {
        Issue::blocks(
            "apiVersion",
            format!("must be {known}; it is {version}"),
            format!("read the object from the API server as {known}"),
        )
    } else {
        return None;
    };
    Some(Converted::new(Vec::new(), vec![issue]))
}

/// The issues of an object on its own: everything that depends on other objects is not checked.
pub fn issues(object: &Value) -> Vec<Issue> {
    convert(object, &Context::default()).issues
}
