//! The gate of KubeadmControlPlanes and their templates. The rules are in `kcp`.
//!
//! The feature `kubeadm-control-plane` takes the place of Cluster API's webhooks for these kinds.
//! It must never be installed beside them.

use crate::admission::feature::Feature;
use crate::admission::gate::{Context, Gate, Outcome, Phase, Route, RuleSource};
use serde_json::Value;

use crate::api::controlplane_cluster_x_k8s_io::kubeadm_control_plane::PLURAL;
use crate::api::controlplane_cluster_x_k8s_io::kubeadm_control_plane_template::PLURAL as TEMPLATES;
use crate::api::controlplane_cluster_x_k8s_io::{API_VERSION, API_VERSION_V1BETA1, GROUP, VERSION};
use crate::api::kind::KindInfo;
use crate::api::kinds::{KUBEADM_CONTROL_PLANE_TEMPLATES, KUBEADM_CONTROL_PLANES};
use crate::kcp::{self, Gates, rules};
use crate::model::{Edit, RuleInfo, Verdict};

/// The gate.
pub(super) struct KubeadmControlPlanes;

impl Gate for KubeadmControlPlanes {
    fn kinds(&self) -> Vec<KindInfo> {
        vec![KUBEADM_CONTROL_PLANES.clone(), KUBEADM_CONTROL_PLANE_TEMPLATES.clone()]
    }

    fn feature(&self) -> Feature {
        Feature::KubeadmControlPlane
    }

    fn routes(&self) -> Vec<Route> {
        let route = |path, phase, plural, subresources: &[&str]| Route {
            path,
            phase,
            group: GROUP,
            resources: vec![plural],
            subresources: subresources.iter().map(|part| format!("{plural}/{part}")).collect(),
            only_deletions: Vec::new(),
        };
        vec![
            route(
                "/mutate-controlplane-cluster-x-k8s-io-v1beta2-kubeadmcontrolplane",
                Phase::Mutate,
                PLURAL,
                &[],
            ),
            route(
                "/validate-controlplane-cluster-x-k8s-io-v1beta2-kubeadmcontrolplane",
                Phase::Validate,
                PLURAL,
                &["scale"],
            ),
            route(
                "/validate-controlplane-cluster-x-k8s-io-v1beta2-kubeadmcontrolplanetemplate",
                Phase::Validate,
                TEMPLATES,
                &[],
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

    fn reads_scaled(&self) -> bool {
        true
    }

    fn convert(&self, object: &Value, api_version: &str) -> Option<Value> {
        // The version of the infrastructure is unknown here, and no rule reads it.
        let any_version = |_: &str, _: &str| Some(String::from(VERSION));
        match api_version {
            API_VERSION => Some(kcp::to_v1beta2(object)),
            API_VERSION_V1BETA1 => Some(kcp::to_v1beta1(object, &any_version)),
            _ => None,
        }
    }

    fn judge(&self, phase: Phase, kind: &KindInfo, edit: &Edit<'_>, context: &Context<'_>) -> Outcome {
        let is_template = *kind == KUBEADM_CONTROL_PLANE_TEMPLATES;
        let gates = Gates::of(&context.options.feature_gates);
        let (mut verdict, patch) = match phase {
            Phase::Mutate if is_template => (Verdict::default(), None),
            Phase::Mutate => rules::mutate(edit),
            Phase::Validate if is_template => (rules::validate_template(edit, gates), None),
            Phase::Validate => (rules::validate(edit, context.snapshot.scaled.as_deref(), gates), None),
        };
        let versions = context.snapshot.infrastructure_versions.as_ref();
        if let (Some(versions), Phase::Validate, false) = (versions, phase, is_template) {
            let warning = rules::unknown_infrastructure(edit, &|group, kind| versions.of(group, kind));
            warning.into_iter().for_each(|warning| verdict.warn(warning));
            verdict = verdict.finish();
        }
        Outcome { verdict, patch }
    }
}
