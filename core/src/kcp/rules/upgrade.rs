//! Changes of the version of Kubernetes and of CoreDNS.

use serde_json::Value;

use super::table::{CORE_DNS, DOWNGRADE, VERSION_SKIP};
use crate::api::controlplane_cluster_x_k8s_io::annotation::SKIP_CORE_DNS;
use crate::api::controlplane_cluster_x_k8s_io::kubeadm_control_plane::KubeadmControlPlane;
use crate::kcp::core_dns;
use crate::kcp::version::Version;
use crate::model::{Violation, ViolationKind};

pub(super) fn judge(old: &KubeadmControlPlane, new: &KubeadmControlPlane, found: &mut Vec<Violation>) {
    found.extend(kubernetes(&old.spec.version, &new.spec.version));
    if !new.metadata.annotations.contains_key(SKIP_CORE_DNS) {
        let tag = |object: &KubeadmControlPlane| {
            let configuration = &object.spec.kubeadm_config_spec.cluster_configuration;
            configuration.dns.image_tag.clone()
        };
        found.extend(core_dns(&tag(old), &tag(new)));
    }
}

/// At most one minor version up, and never down.
fn kubernetes(old: &str, new: &str) -> Option<Violation> {
    let path = "spec.version";
    let Some(from) = Version::tolerant(old) else {
        let allowed = format!("must follow a valid version, but the current version is {old:?}");
        let invalid = VERSION_SKIP.because(path, ViolationKind::Invalid, allowed);
        let advice = "create another control plane";
        return Some(invalid.got(&Value::from(new)).advice(advice));
    };
    // A version that cannot be read is refused by its own rule, unless it is tolerable.
    let to = Version::tolerant(new)?;
    let [major, minor, _] = from.core;
    if to.core >= [major, minor.saturating_add(2), 0] {
        let allowed = format!("must be at most one minor version higher than {old}");
        let forbidden = VERSION_SKIP.because(path, ViolationKind::Forbidden, allowed);
        let advice = format!("upgrade to v{major}.{} first", minor.saturating_add(1));
        return Some(forbidden.got(&Value::from(new)).advice(advice));
    }
    (to < from).then(|| {
        let allowed = format!("must not be lower than {old}");
        let forbidden = DOWNGRADE.because(path, ViolationKind::Forbidden, allowed);
        let advice = "Kubernetes and etcd do not support a downgrade; keep the version, or restore a backup into \
                      another cluster";
        forbidden.got(&Value::from(new)).advice(advice)
    })
}

/// The configuration of CoreDNS can be migrated.
fn core_dns(old: &str, new: &str) -> Option<Violation> {
    if old.is_empty() || new.is_empty() {
        return None;
    }
    let path = "spec.kubeadmConfigSpec.clusterConfiguration.dns.imageTag";
    let Some(from) = Version::of_image_tag(old) else {
        let allowed = format!("must follow a valid tag, but the current tag is {old:?}");
        let invalid = CORE_DNS.because(path, ViolationKind::Invalid, allowed);
        let advice = format!("set the annotation {SKIP_CORE_DNS} to manage CoreDNS yourself");
        return Some(invalid.got(&Value::from(new)).advice(advice));
    };
    // A tag that cannot be read is refused by its own rule.
    let to = Version::of_image_tag(new)?;
    if from.core == to.core || core_dns::can_migrate(&from, &to) {
        return None;
    }
    let allowed = format!(
        "must be a version to which CoreDNS {from} can be migrated: higher, and at most {}",
        core_dns::NEWEST
    );
    let forbidden = CORE_DNS.because(path, ViolationKind::Forbidden, allowed);
    let advice = format!("choose such a version, or set the annotation {SKIP_CORE_DNS} to manage CoreDNS yourself");
    Some(forbidden.got(&Value::from(new)).advice(advice))
}
