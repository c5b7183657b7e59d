//! The rules of a conversion, as data: what becomes of a field of one API in the other.

use core::slice::from_ref;

use super::Pass;
use crate::conversion::shape::Shape;
use crate::conversion::{Api, Severity};

/// A literal value in a rule.
#[derive(Clone, Copy, Debug)]
pub(in crate::conversion) enum Literal {
    /// A string.
    Text(&'static str),
    /// An integer.
    Int(i64),
    /// A boolean.
    Bool(bool),
}

/// What becomes of a field, or of several.
///
/// A path starts at the provider spec in the Machine API, and at the spec of the infrastructure
/// machine in Cluster API. A path of Cluster API that starts with `Machine.` starts at the spec of
/// the Machine.
#[derive(Debug)]
pub(in crate::conversion) enum Rule {
    /// The field exists in both APIs.
    Field {
        /// The path in the Machine API.
        machine_api: &'static str,
        /// The path in Cluster API.
        cluster_api: &'static str,
        /// Its type, its limits and its codec.
        shape: Shape,
    },
    /// An object exists in both APIs, with rules for its fields. Without fields it is absent.
    Object {
        /// The path in the Machine API.
        machine_api: &'static str,
        /// The path in Cluster API.
        cluster_api: &'static str,
        /// The rules of its fields.
        rules: &'static [Rule],
    },
    /// A list of objects exists in both APIs, with rules for its items.
    List {
        /// The path in the Machine API.
        machine_api: &'static str,
        /// The path in Cluster API.
        cluster_api: &'static str,
        /// The rules of an item.
        rules: &'static [Rule],
    },
    /// The field exists in one API. A value other than the neutral ones is an issue.
    Only {
        /// The API that has the field.
        api: Api,
        /// Its path.
        at: &'static str,
        /// The values that mean the same as an absent field.
        neutral: &'static [Literal],
        /// The effect of another value.
        severity: Severity,
        /// Why the other API cannot express it.
        reason: &'static str,
        /// What to do.
        way_out: &'static str,
    },
    /// The field exists in one API, and the other API always behaves as with this value.
    Fixed {
        /// The API that has the field.
        api: Api,
        /// Its path.
        at: &'static str,
        /// The only value that can be converted.
        value: Literal,
        /// Whether a conversion into this API writes the value.
        written: bool,
        /// The effect of another value.
        severity: Severity,
        /// Why the other API cannot express another value.
        reason: &'static str,
        /// What to do.
        way_out: &'static str,
    },
    /// The field must be set.
    Required {
        /// The API that the rule applies to.
        api: Api,
        /// The path.
        at: &'static str,
        /// The effect of its absence in a conversion to the Machine API. Cluster API always refuses
        /// an object without the field.
        severity: Severity,
        /// Why.
        reason: &'static str,
        /// What to do.
        way_out: &'static str,
    },
    /// The Machine API sets the field for each machine, and Cluster API once in the infrastructure
    /// cluster.
    Shared {
        /// The path in the Machine API.
        at: &'static str,
        /// The paths in the spec of the infrastructure cluster; the first that is set applies.
        cluster: &'static [&'static str],
        /// The path below `status.platformStatus` of the Infrastructure, or empty.
        infrastructure: &'static str,
        /// Whether upper and lower case are the same.
        ignores_case: bool,
    },
    /// The field is not converted, because it does not describe the machine.
    Local {
        /// The API that has the field.
        api: Api,
        /// Its path.
        at: &'static str,
        /// Why, for the documentation.
        about: &'static str,
    },
    /// A codec written by hand.
    Hand(&'static Hand),
    /// Rules that a codec written by hand applies to a part of its fields. The interpreter skips
    /// them; the documentation and the test that counts the rules read them.
    Inner {
        /// The path of the part in the Machine API; `[]` is an item of a list.
        machine_api: &'static str,
        /// The path of the part in Cluster API.
        cluster_api: &'static str,
        /// The rules.
        rules: &'static [Rule],
    },
}

/// A codec written by hand for fields that belong together.
#[derive(Debug)]
pub(in crate::conversion) struct Hand {
    /// The paths in the Machine API.
    pub(in crate::conversion) machine_api: &'static [&'static str],
    /// The paths in Cluster API.
    pub(in crate::conversion) cluster_api: &'static [&'static str],
    /// What it does, for the documentation.
    pub(in crate::conversion) about: &'static str,
    /// To Cluster API.
    pub(in crate::conversion) to: fn(&mut Pass<'_>),
    /// To the Machine API.
    pub(in crate::conversion) back: fn(&mut Pass<'_>),
}

/// A field with the same path in both APIs.
pub(in crate::conversion) const fn same(path: &'static str, shape: Shape) -> Rule {
    moved(path, path, shape)
}

/// A field with another path in Cluster API.
pub(in crate::conversion) const fn moved(machine_api: &'static str, cluster_api: &'static str, shape: Shape) -> Rule {
    Rule::Field {
        machine_api,
        cluster_api,
        shape,
    }
}

/// A list of objects.
pub(in crate::conversion) const fn list(
    machine_api: &'static str,
    cluster_api: &'static str,
    rules: &'static [Rule],
) -> Rule {
    Rule::List {
        machine_api,
        cluster_api,
        rules,
    }
}

/// An object.
pub(in crate::conversion) const fn object(
    machine_api: &'static str,
    cluster_api: &'static str,
    rules: &'static [Rule],
) -> Rule {
    Rule::Object {
        machine_api,
        cluster_api,
        rules,
    }
}

/// Rules that a codec written by hand applies.
pub(in crate::conversion) const fn inner(
    machine_api: &'static str,
    cluster_api: &'static str,
    rules: &'static [Rule],
) -> Rule {
    Rule::Inner {
        machine_api,
        cluster_api,
        rules,
    }
}

/// A field that only the Machine API has.
pub(in crate::conversion) const fn machine_api_only(
    at: &'static str,
    reason: &'static str,
    way_out: &'static str,
) -> Rule {
    only(Api::MachineApi, at, &[], Severity::Blocks, reason, way_out)
}

/// A field that only Cluster API has.
pub(in crate::conversion) const fn cluster_api_only(
    at: &'static str,
    reason: &'static str,
    way_out: &'static str,
) -> Rule {
    only(Api::ClusterApi, at, &[], Severity::Blocks, reason, way_out)
}

/// A field that one API has.
pub(in crate::conversion) const fn only(
    api: Api,
    at: &'static str,
    neutral: &'static [Literal],
    severity: Severity,
    reason: &'static str,
    way_out: &'static str,
) -> Rule {
    Rule::Only {
        api,
        at,
        neutral,
        severity,
        reason,
        way_out,
    }
}

/// A field with one value that can be converted, written by a conversion into this API.
pub(in crate::conversion) const fn constant(
    api: Api,
    at: &'static str,
    value: Literal,
    reason: &'static str,
    way_out: &'static str,
) -> Rule {
    Rule::Fixed {
        api,
        at,
        value,
        written: true,
        severity: Severity::Blocks,
        reason,
        way_out,
    }
}

/// A field that a value must be given for.
pub(in crate::conversion) const fn required(
    api: Api,
    at: &'static str,
    reason: &'static str,
    way_out: &'static str,
) -> Rule {
    Rule::Required {
        api,
        at,
        severity: Severity::Loses,
        reason,
        way_out,
    }
}

/// A field of Cluster API that a value must be given for, because the Machine API may read another
/// field of the source instead.
pub(in crate::conversion) const fn required_of_cluster_api(
    at: &'static str,
    reason: &'static str,
    way_out: &'static str,
) -> Rule {
    Rule::Required {
        api: Api::ClusterApi,
        at,
        severity: Severity::Blocks,
        reason,
        way_out,
    }
}

/// A field that the infrastructure cluster sets for all machines.
pub(in crate::conversion) const fn shared(
    at: &'static str,
    cluster: &'static [&'static str],
    infrastructure: &'static str,
) -> Rule {
    Rule::Shared {
        at,
        cluster,
        infrastructure,
        ignores_case: false,
    }
}

/// A field that is not converted.
pub(in crate::conversion) const fn local(api: Api, at: &'static str, about: &'static str) -> Rule {
    Rule::Local { api, at, about }
}

impl Rule {
    /// The paths that the rule consumes in an API.
    pub(in crate::conversion) fn paths(&'static self, side: Api) -> &'static [&'static str] {
        match self {
            Self::Field {
                machine_api,
                cluster_api,
                ..
            }
            | Self::Object {
                machine_api,
                cluster_api,
                ..
            }
            | Self::List {
                machine_api,
                cluster_api,
                ..
            } => match side {
                Api::MachineApi => from_ref(machine_api),
                Api::ClusterApi => from_ref(cluster_api),
            },
            Self::Only { api, at, .. } | Self::Fixed { api, at, .. } | Self::Local { api, at, .. } if *api == side => {
                from_ref(at)
            }
            Self::Shared { at, .. } if side == Api::MachineApi => from_ref(at),
            Self::Hand(hand) => hand.paths(side),
            _ => &[],
        }
    }
}

impl Hand {
    /// The paths that the codec consumes in an API.
    pub(in crate::conversion) fn paths(&self, side: Api) -> &'static [&'static str] {
        match side {
            Api::MachineApi => self.machine_api,
            Api::ClusterApi => self.cluster_api,
        }
    }
}
