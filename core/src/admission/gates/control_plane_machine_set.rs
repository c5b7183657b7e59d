//! The gate of ControlPlaneMachineSets. The rules are in `cpms`.

use crate::admission::feature::Feature;
use crate::admission::gate::{Context, Gate, Outcome, Phase, Route, RuleSource};
use crate::admission::snapshot::Source;
use crate::api::kind::KindInfo;
use crate::api::kinds::CONTROL_PLANE_MACHINE_SETS;
use crate::api::machine_openshift_io::GROUP;
use crate::api::machine_openshift_io::control_plane_machine_set::{KIND, PLURAL};
use crate::cpms::rules::{self, Lookup};
use crate::model::{Edit, RuleInfo};

/// The gate.
pub(super) struct ControlPlaneMachineSets;

pub(super) const RULE_SOURCES: &[RuleSource] = &[RuleSource {
    path: "webhooks/rules/controlplanemachineset.yaml",
    text: include_str!("../../../../webhooks/rules/controlplanemachineset.yaml"),
    kinds: KIND,
}];

impl Gate for ControlPlaneMachineSets {
    fn kinds(&self) -> Vec<KindInfo> {
        vec![CONTROL_PLANE_MACHINE_SETS.clone()]
    }

    fn feature(&self) -> Feature {
        Feature::Admission
    }

    fn routes(&self) -> Vec<Route> {
        Route::both_passes(
            GROUP,
            PLURAL,
            "/mutate-machine-openshift-io-v1-controlplanemachineset",
            "/validate-machine-openshift-io-v1-controlplanemachineset",
        )
    }

    fn rule_sources(&self) -> &'static [RuleSource] {
        RULE_SOURCES
    }

    fn rules(&self) -> Vec<RuleInfo> {
        rules::table()
    }

    fn reads_status(&self) -> bool {
        false
    }

    fn judge(&self, phase: Phase, _kind: &KindInfo, edit: &Edit<'_>, context: &Context<'_>) -> Outcome {
        let lookup = lookup(context);
        match phase {
            Phase::Mutate => {
                let (verdict, patch) = rules::mutate(edit, &lookup, context.rules);
                Outcome { verdict, patch }
            }
            Phase::Validate => Outcome {
                verdict: rules::validate(edit, &lookup, context.rules),
                patch: None,
            },
        }
    }
}

/// What the rules may look up, for the rules of ControlPlanes as well.
pub(super) fn lookup<'a>(context: &Context<'a>) -> Lookup<'a> {
    let (options, snapshot) = (context.options, context.snapshot);
    Lookup {
        machines: snapshot.machines.as_deref(),
        sets: snapshot.control_plane_machine_sets.as_deref(),
        control_planes: snapshot.control_planes.as_deref(),
        parsed: &snapshot.parsed,
        infrastructure: snapshot.infrastructure.as_ref(),
        nodes: snapshot.nodes.as_ref(),
        cluster_operators: snapshot.cluster_operators.as_ref(),
        gates: options.gates(snapshot.feature_gate.as_deref()),
        // A cluster without the configuration of OpenShift has no FeatureGate, and the defaults
        // apply.
        feature_gate_unknown: snapshot.feature_gate.is_none() && snapshot.source == Source::Files,
        namespace: &options.namespace,
        wait_for_unknown: snapshot.source == Source::Cluster,
    }
}
