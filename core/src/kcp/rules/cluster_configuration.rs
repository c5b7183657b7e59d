//! The cluster configuration: image tags, and the kind of etcd.

use serde_json::Value;

use super::Judge;
use super::table::{DNS_TAG, ETCD_TAG, ONE_ETCD, SAME_ETCD};
use crate::api::bootstrap_cluster_x_k8s_io::kubeadm_config::LocalEtcd;
use crate::api::controlplane_cluster_x_k8s_io::kubeadm_control_plane::Spec;
use crate::kcp::version::Version;
use crate::model::{Violation, ViolationKind};

/// What the tag of an image may contain.
const TAG: &str = "must have only letters, digits, '-', '_' and '.'";

fn is_tag(tag: &str) -> bool {
    tag.bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

impl Judge<'_> {
    pub(super) fn images(&mut self) {
        let configuration = &self.spec.kubeadm_config_spec.cluster_configuration;
        let tag = &configuration.dns.image_tag;
        let path = self.kubeadm("clusterConfiguration.dns.imageTag");
        if !is_tag(tag) {
            let forbidden = DNS_TAG.because(path.clone(), ViolationKind::Forbidden, TAG);
            self.found.push(forbidden.advice("write _ for + in a tag"));
        }
        if !tag.is_empty() && Version::of_image_tag(tag).is_none() {
            let allowed = "must be a version of CoreDNS";
            let invalid = DNS_TAG
                .because(path, ViolationKind::Invalid, allowed)
                .got(&Value::from(tag.as_str()));
            self.found.push(invalid.advice("use a tag such as v1.12.4"));
        }
        let tag = &configuration.etcd.local.image_tag;
        if !is_tag(tag) {
            let path = self.kubeadm("clusterConfiguration.etcd.local.imageTag");
            let forbidden = ETCD_TAG.because(path, ViolationKind::Forbidden, TAG);
            self.found.push(forbidden.advice("write _ for + in a tag"));
        }
    }

    pub(super) fn etcd(&mut self) {
        let configuration = &self.spec.kubeadm_config_spec.cluster_configuration;
        if configuration.etcd.local != LocalEtcd::default() && configuration.has_external_etcd() {
            let path = self.kubeadm("clusterConfiguration.etcd.local");
            let forbidden = ONE_ETCD.violation(path, ViolationKind::Forbidden);
            self.found.push(forbidden.advice("remove etcd.local or etcd.external"));
        }
    }
}

/// An update does not change between external etcd and etcd on the machines.
pub(super) fn same_etcd(old: &Spec, new: &Spec, found: &mut Vec<Violation>) {
    let external = |spec: &Spec| spec.kubeadm_config_spec.cluster_configuration.has_external_etcd();
    if external(old) != external(new) {
        let path = "spec.kubeadmConfigSpec.clusterConfiguration.etcd.external";
        let forbidden = SAME_ETCD.violation(path, ViolationKind::Forbidden);
        found.push(forbidden.advice("create another cluster and move the data"));
    }
}
