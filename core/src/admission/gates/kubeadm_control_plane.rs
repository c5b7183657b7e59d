//! The gate of KubeadmControlPlanes and their templates. The rules are in `kcp`.
//!
//! The gate is not installed: on a cluster with Cluster API, its webhooks judge these kinds.

use crate::admission::feature::Feature;
use crate::admission::gate::{Context, Gate, Outcome, Phase, Route, RuleSource};
use crate::api::controlplane_cluster_x_k8s_io::GROUP;
use crate::api::controlplane_cluster_x_k8s_io::kubeadm_control_plane::PLURAL;
use crate::api::controlplane_cluster_x_k8s_io::kubeadm_control_plane_template::PLURAL as TEMPLATES;
use crate::api::kind::KindInfo;
use crate::api::kinds::{KUBEADM_CONTROL_PLANE_TEMPLATES, KUBEADM_CONTROL_PLANES};
use crate::kcp::Gates;
use crate::kcp::rules;
use crate::model::{Edit, RuleInfo, Verdict};

/// The gate.
pub(super) struct KubeadmControlPlanes;

impl Gate for KubeadmControlPlanes {
    fn kinds(&self) -> Vec<KindInfo> {
        vec![KUBEADM_CONTROL_PLANES.clone(), KUBEADM_CONTROL_PLANE_TEMPLATES.clone()]
    }

    fn feature(&self) -> Feature {
        Feature::Admission
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

    fn is_installed(&self) -> bool {
        false
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

    fn judge(&self, phase: Phase, kind: &KindInfo, edit: &Edit<'_>, context: &Context<'_>) -> Outcome {
        let is_template = *kind == KUBEADM_CONTROL_PLANE_TEMPLATES;
        let gates = Gates::of(&context.options.feature_gates);
        let (verdict, patch) = match phase {
            Phase::Mutate if is_template => (Verdict::default(), None),
            Phase::Mutate => rules::mutate(edit),
            Phase::Validate if is_template => (rules::validate_template(edit, gates), None),
            Phase::Validate => (rules::validate(edit, gates), None),
        };
        Outcome { verdict, patch }
    }
}
