//! `KubeadmControlPlaneTemplate`, `controlplane.cluster.x-k8s.io/v1beta2`: the control planes of a
//! ClusterClass.

use super::kubeadm_control_plane::{Spec, TemplateMeta};
use crate::api::meta::ObjectMeta;
use crate::api::wire::wire;

/// The kind.
pub const KIND: &str = "KubeadmControlPlaneTemplate";
/// The lower-case plural, as it is in a URL.
pub const PLURAL: &str = "kubeadmcontrolplanetemplates";

wire! {
    /// A KubeadmControlPlaneTemplate.
    pub struct KubeadmControlPlaneTemplate {
        /// Group and version.
        pub api_version: String,
        /// Kind.
        pub kind: String,
        /// Standard metadata.
        pub metadata: ObjectMeta,
        /// The template.
        pub spec: TemplateSpec,
    }

    /// The spec of a template.
    pub struct TemplateSpec {
        /// The control plane to make.
        pub template: TemplateResource,
    }

    /// The control plane to make.
    pub struct TemplateResource {
        /// Its labels and annotations.
        pub metadata: TemplateMeta,
        /// Its spec, without `replicas`, `version` and the reference to infrastructure.
        pub spec: Spec,
    }
}
