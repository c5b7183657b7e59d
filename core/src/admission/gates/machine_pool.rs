//! The gate of MachinePools. The rules are in `pool`.
//!
//! The webhooks of the feature `machine-pools` run beside those of Cluster API, or in their place.

use crate::admission::feature::Feature;
use crate::admission::gate::{Context, Gate, Outcome, Phase, Route, RuleSource};
use crate::api::cluster_x_k8s_io::GROUP;
use crate::api::cluster_x_k8s_io::machine_pool::PLURAL;
use crate::api::kind::KindInfo;
use crate::api::kinds::MACHINE_POOLS;
use crate::model::{Edit, RuleInfo};
use crate::pool::rules;

/// The gate.
pub(super) struct MachinePools;

impl Gate for MachinePools {
    fn kinds(&self) -> Vec<KindInfo> {
        vec![MACHINE_POOLS.clone()]
    }

    fn feature(&self) -> Feature {
        Feature::MachinePools
    }

    fn routes(&self) -> Vec<Route> {
        let route = |path, phase, subresources| Route {
            path,
            phase,
            group: GROUP,
            resources: vec![PLURAL],
            subresources,
            only_deletions: Vec::new(),
        };
        vec![
            route(
                "/mutate-cluster-x-k8s-io-v1beta2-machinepool",
                Phase::Mutate,
                Vec::new(),
            ),
            route(
                "/validate-cluster-x-k8s-io-v1beta2-machinepool",
                Phase::Validate,
                vec![format!("{PLURAL}/scale")],
            ),
        ]
    }

    fn rule_sources(&self) -> &'static [RuleSource] {
        &[]
    }

    fn rules(&self) -> Vec<RuleInfo> {
        rules::table()
    }

    fn reads_status(&self) -> bool {
        false
    }

    fn judge(&self, phase: Phase, _kind: &KindInfo, edit: &Edit<'_>, _context: &Context<'_>) -> Outcome {
        match phase {
            Phase::Mutate => {
                let (verdict, patch) = rules::mutate(edit);
                Outcome { verdict, patch }
            }
            Phase::Validate => Outcome {
                verdict: rules::validate(edit),
                patch: None,
            },
        }
    }
}
