//! Rules of single platforms.

use serde_json::Value;

use super::{Template, path};
use crate::api::config_openshift_io::infrastructure::Infrastructure;
use crate::cpms::domains::{Platform, defined_names};
use crate::model::{Verdict, Violation, ViolationKind, Warning};

const AZURE_LOAD_BALANCER: &str = "cpms-azure-internal-load-balancer";
const GCP_TARGET_POOLS: &str = "cpms-gcp-target-pools";
const OPENSTACK_ETCD_VOLUME: &str = "cpms-openstack-etcd-volume";
const VSPHERE_TEMPLATE: &str = "cpms-vsphere-template";
const VSPHERE_NETWORK: &str = "cpms-vsphere-network";
const VSPHERE_WORKSPACE: &str = "cpms-vsphere-workspace";

/// The smallest volume of etcd, in GiB.
const SMALLEST_ETCD_VOLUME: i64 = 10;

pub(super) const RULES: &[(&str, &str, &str)] = &[
    (
        AZURE_LOAD_BALANCER,
        "internalLoadBalancer",
        "Azure: the internal load balancer is set",
    ),
    (
        GCP_TARGET_POOLS,
        "targetPools",
        "Google Cloud: warns if there are no target pools",
    ),
    (
        OPENSTACK_ETCD_VOLUME,
        "additionalBlockDevices",
        "OpenStack: the volume of etcd has at least 10 GiB",
    ),
    (
        VSPHERE_TEMPLATE,
        "template",
        "vSphere: the template is a name or a full path",
    ),
    (
        VSPHERE_NETWORK,
        "network.devices",
        "vSphere: failure domains decide the network",
    ),
    (
        VSPHERE_WORKSPACE,
        "workspace",
        "vSphere: failure domains decide the workspace",
    ),
];

pub(super) fn judge(template: &Template<'_>, infrastructure: Option<&Infrastructure>, verdict: &mut Verdict) {
    match Platform::of(template.value) {
        Some(Platform::Azure) => azure(template.value, verdict),
        Some(Platform::Gcp) => gcp(template.value, verdict),
        Some(Platform::OpenStack) => openstack(template.value, verdict),
        Some(Platform::VSphere) => vsphere(template, infrastructure, verdict),
        Some(Platform::Aws | Platform::Nutanix) | None => {}
    }
}

fn text<'a>(value: &'a Value, pointer: &str) -> Option<&'a str> {
    value.pointer(pointer)?.as_str().filter(|text| !text.is_empty())
}

fn azure(value: &Value, verdict: &mut Verdict) {
    if text(value, "/internalLoadBalancer").is_none() {
        let at = path("internalLoadBalancer");
        let demand = "must be set to the internal load balancer of the API server";
        verdict.deny(
            Violation::new(AZURE_LOAD_BALANCER, at.as_str(), ViolationKind::Required, demand)
                .advice("copy it from a control plane Machine"),
        );
    }
}

fn gcp(value: &Value, verdict: &mut Verdict) {
    if value
        .get("targetPools")
        .and_then(Value::as_array)
        .is_none_or(Vec::is_empty)
    {
        let text = "without target pools new machines do not join the external load balancer of the API server; private \
                    clusters have no target pools";
        verdict.warn(Warning::new(
            GCP_TARGET_POOLS,
            format!("{}: {text}", path("targetPools")),
        ));
    }
}

fn openstack(value: &Value, verdict: &mut Verdict) {
    let devices = value.get("additionalBlockDevices").and_then(Value::as_array);
    for (position, device) in devices.into_iter().flatten().enumerate() {
        let size = device.get("sizeGiB").and_then(Value::as_i64);
        if text(device, "/name") == Some("etcd")
            && let Some(size) = size.filter(|size| *size < SMALLEST_ETCD_VOLUME)
        {
            let at = path(&format!("additionalBlockDevices[{position}].sizeGiB"));
            let demand =
                format!("must be at least {SMALLEST_ETCD_VOLUME}, the smallest size in GiB of a volume of etcd");
            verdict.deny(
                Violation::new(OPENSTACK_ETCD_VOLUME, at.as_str(), ViolationKind::Invalid, demand)
                    .got(&Value::from(size))
                    .advice(format!("set sizeGiB to {SMALLEST_ETCD_VOLUME} or more")),
            );
        }
    }
}

fn vsphere(template: &Template<'_>, infrastructure: Option<&Infrastructure>, verdict: &mut Verdict) {
    let value = template.value;
    let named = text(value, "/template");
    if let Some(named) = named.filter(|named| !is_template(named)) {
        let at = path("template");
        verdict.deny(
            Violation::new(
                VSPHERE_TEMPLATE,
                at.as_str(),
                ViolationKind::Invalid,
                "must be a name, or a full path such as /<datacenter>/vm/<template>",
            )
            .got(&Value::from(named))
            .advice("write the inventory path of the template, which begins with / and contains /vm/"),
        );
    }
    let Some(infrastructure) = infrastructure else { return };
    if defined_names(Platform::VSphere, infrastructure).is_empty() {
        return;
    }
    if named.is_some() {
        let text = "the failure domains of the Infrastructure decide the template; this value may be ignored";
        verdict.warn(Warning::new(VSPHERE_TEMPLATE, format!("{}: {text}", path("template"))));
    }
    if template.has_domains {
        vsphere_domains(value, verdict);
    }
}

/// Whether this is a name, or a full path. A datacenter and a template may be in folders.
fn is_template(template: &str) -> bool {
    let path = template.strip_prefix('/').and_then(|path| path.split_once("/vm/"));
    !template.contains('/') || path.is_some_and(|(_, name)| !name.is_empty() && !name.ends_with('/'))
}

/// The failure domains decide the network and the workspace.
fn vsphere_domains(value: &Value, verdict: &mut Verdict) {
    let devices = value.pointer("/network/devices").and_then(Value::as_array);
    for (position, device) in devices.into_iter().flatten().enumerate() {
        if let Some(network) = text(device, "/networkName") {
            let at = path(&format!("network.devices[{position}].networkName"));
            let demand = "must be absent: the failure domains decide the network";
            verdict.deny(
                Violation::new(VSPHERE_NETWORK, at.as_str(), ViolationKind::Forbidden, demand)
                    .got(&Value::from(network))
                    .advice("remove networkName"),
            );
        }
    }
    for field in ["datacenter", "datastore", "server"] {
        if text(value, &format!("/workspace/{field}")).is_some() {
            let at = path(&format!("workspace.{field}"));
            let demand = format!("must be absent: the failure domains decide the {field}");
            verdict.deny(
                Violation::new(VSPHERE_WORKSPACE, at.as_str(), ViolationKind::Forbidden, demand)
                    .advice(format!("remove workspace.{field}")),
            );
        }
    }
    for field in ["folder", "resourcePool"] {
        if text(value, &format!("/workspace/{field}")).is_some() {
            let text = format!("the failure domains decide the {field}; this value may be ignored");
            verdict.warn(Warning::new(
                VSPHERE_WORKSPACE,
                format!("{}: {text}", path(&format!("workspace.{field}"))),
            ));
        }
    }
}
