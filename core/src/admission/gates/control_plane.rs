//! The gate of ControlPlanes. The rules are in `control_plane`.

use super::control_plane_machine_set::{RULE_SOURCES as SET_RULES, lookup};
use crate::admission::feature::Feature;
use crate::admission::gate::{Context, Gate, Outcome, Phase, Route, RuleSource};
use crate::api::kind::KindInfo;
use crate::api::kinds::CONTROL_PLANES;
use crate::api::machine_openshift_io::GROUP;
use crate::api::machine_openshift_io::control_plane::{KIND, PLURAL};
use crate::cel::rules::{Rule, RuleFile};
use crate::control_plane::rules;
use crate::model::{Edit, Operation, RuleInfo};

/// The gate.
pub(super) struct ControlPlanes;

const RULE_SOURCES: &[RuleSource] = &[RuleSource {
    path: "webhooks/rules/controlplane.yaml",
    text: include_str!("../../../../webhooks/rules/controlplane.yaml"),
    kinds: KIND,
}];

impl Gate for ControlPlanes {
    fn kinds(&self) -> Vec<KindInfo> {
        vec![CONTROL_PLANES.clone()]
    }

    fn feature(&self) -> Feature {
        Feature::ControlPlane
    }

    fn routes(&self) -> Vec<Route> {
        Route::both_passes(
            GROUP,
            PLURAL,
            "/mutate-machine-openshift-io-v1alpha1-controlplane",
            "/validate-machine-openshift-io-v1alpha1-controlplane",
        )
    }

    fn rule_sources(&self) -> &'static [RuleSource] {
        RULE_SOURCES
    }

    fn rules(&self) -> Vec<RuleInfo> {
        let mut table = rules::table();
        // The rules in CEL about failure domains, which ControlPlaneMachineSets share.
        let files = SET_RULES
            .iter()
            .filter_map(|source| RuleFile::parse(source.path, source.text).ok());
        let shared = files
            .flat_map(|file| file.rules)
            .filter(|rule| rules::is_shared(&rule.path));
        let message = |rule: &Rule| rule.message.trim_end_matches('.').to_owned();
        table.extend(shared.map(|rule| {
            let both = &[Operation::Create, Operation::Update];
            rules::shared(RuleInfo::webhook(&rule.id, KIND, &rule.path, both, &message(&rule)))
        }));
        table
    }

    fn reads_status(&self) -> bool {
        false
    }

    fn judge(&self, phase: Phase, _kind: &KindInfo, edit: &Edit<'_>, context: &Context<'_>) -> Outcome {
        match phase {
            Phase::Mutate => {
                let (verdict, patch) = rules::mutate(edit, context.rules);
                Outcome { verdict, patch }
            }
            Phase::Validate => Outcome {
                verdict: rules::validate(edit, &lookup(context), context.rules),
                patch: None,
            },
        }
    }
}
