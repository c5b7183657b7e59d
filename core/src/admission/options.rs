//! The configuration of admission.

use std::collections::BTreeMap;

use crate::api::config_openshift_io::feature_gate::FeatureGate;
use crate::api::machine_openshift_io;
use crate::authority::config::Config;
use crate::cpms::spec::Gates;
use crate::kcp;

/// What happens to a request that breaks a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Enforcement {
    /// The request is refused.
    #[default]
    Deny,
    /// The request is allowed, and each violation becomes a warning. For a trial. A request that
    /// cannot be read is still refused.
    Warn,
}

/// The configuration of admission.
#[derive(Clone, Debug)]
pub struct Options {
    /// The namespace of the Machine API.
    pub namespace: String,
    /// Feature gates by name. They override the FeatureGate of the cluster.
    pub feature_gates: BTreeMap<String, bool>,
    /// The version whose entry in the FeatureGate of the cluster applies; empty for the first
    /// entry.
    pub release_version: String,
    /// The users that may write objects that exist in both APIs, and the namespaces of these
    /// objects. The namespace of the Machine API is replaced by the one above.
    pub authority: Config,
    /// What happens to a request that breaks a rule.
    pub enforcement: Enforcement,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            namespace: machine_openshift_io::NAMESPACE.to_owned(),
            feature_gates: BTreeMap::new(),
            release_version: String::new(),
            authority: Config::default(),
            enforcement: Enforcement::Deny,
        }
    }
}

impl Options {
    /// The names of the feature gates that Capstan knows.
    pub const FEATURE_GATES: [&'static str; 5] = [
        Gates::NAME_PREFIX,
        Gates::RECREATE,
        kcp::Gates::CLUSTER_TOPOLOGY,
        kcp::Gates::IGNITION,
        kcp::Gates::MACHINE_TAINTS,
    ];

    /// The feature gates of ControlPlaneMachineSets: the defaults, then the FeatureGate of the
    /// cluster, then the configuration. A later one overrides an earlier one.
    pub fn gates(&self, cluster: Option<&FeatureGate>) -> Gates {
        let mut gates = cluster.map_or_else(Gates::default, |gate| Gates::of(gate, &self.release_version));
        for (name, on) in [
            (Gates::NAME_PREFIX, &mut gates.name_prefix),
            (Gates::RECREATE, &mut gates.recreate),
        ] {
            if let Some(configured) = self.feature_gates.get(name) {
                *on = *configured;
            }
        }
        gates
    }
}
