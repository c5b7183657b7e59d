//! The provider spec of the template: its defaults, what each platform demands, and fields that
//! nobody knows.
//!
//! Only what is dangerous or impossible is refused; the rest is a warning, since platforms learn
//! new fields before Capstan does (defect B18: an unknown field used to vanish without a word).

use json_patch::Patch;
use serde_json::Value;

use super::TEMPLATE;
use super::judged::Judged;
use super::lookup::Lookup;
use crate::api::config_openshift_io::infrastructure::Infrastructure;
use crate::api::machine_openshift_io::control_plane_machine_set::KIND;
use crate::cpms::defaults::provider_spec_defaults;
use crate::cpms::domains::{Platform, defined_names};
use crate::model::{Operation, RuleInfo, Verdict, Violation, ViolationKind, Warning};

const UNKNOWN_FIELD: &str = "cpms-provider-spec-unknown-field";
const AZURE_LOAD_BALANCER: &str = "cpms-azure-internal-load-balancer";
const GCP_TARGET_POOLS: &str = "cpms-gcp-target-pools";
const OPENSTACK_ETCD_VOLUME: &str = "cpms-openstack-etcd-volume";
const VSPHERE_TEMPLATE: &str = "cpms-vsphere-template";
const VSPHERE_NETWORK: &str = "cpms-vsphere-network";
const VSPHERE_WORKSPACE: &str = "cpms-vsphere-workspace";

/// The smallest volume that etcd's data may be given, in GiB.
const SMALLEST_ETCD_VOLUME: i64 = 10;

fn path(field: &str) -> String {
    format!("{TEMPLATE}.spec.providerSpec.value.{field}")
}

/// The patch that fills the defaults of the platform into a set's template; `None` when there is
/// nothing to fill.
pub(super) fn defaults(object: &Value) -> Option<Patch> {
    let pointer = format!("/{}/spec/providerSpec/value", TEMPLATE.replace('.', "/"));
    let before = object.pointer(&pointer)?;
    let mut after = before.clone();
    provider_spec_defaults(Platform::of(before), &mut after);
    if &after == before {
        return None;
    }
    let mut patch = json_patch::diff(before, &after);
    for operation in &mut patch.0 {
        // The difference was taken at the provider spec; the patch applies to the object.
        let mut whole = serde_json::to_value(&*operation).ok()?;
        let at = format!("{pointer}{}", whole.get("path")?.as_str()?);
        whole.as_object_mut()?.insert(String::from("path"), Value::from(at));
        *operation = serde_json::from_value(whole).ok()?;
    }
    Some(patch)
}

pub(super) fn judge(old: Option<&Judged<'_>>, new: &Judged<'_>, lookup: &Lookup<'_>, verdict: &mut Verdict) {
    let Some(value) = new.provider_spec() else { return };
    if old.and_then(Judged::provider_spec) == Some(value) && old.is_some_and(|old| old.platform() == new.platform()) {
        return;
    }
    let Some(platform) = Platform::of(value) else { return };
    let unknown = platform.provider_spec().unknown_fields(value);
    if !unknown.is_empty() {
        verdict.warn(Warning::new(
            UNKNOWN_FIELD,
            format!(
                "{}: unknown to {}: machines are created with it, and the platform may ignore it; correct a misspelling",
                path(&unknown.join(", ")),
                platform.kind()
            ),
        ));
    }
    match platform {
        Platform::Aws | Platform::Nutanix => {}
        Platform::Azure => azure(value, verdict),
        Platform::Gcp => gcp(value, verdict),
        Platform::OpenStack => openstack(value, verdict),
        Platform::VSphere => vsphere(new, value, lookup.infrastructure(), verdict),
    }
}

fn text<'a>(value: &'a Value, pointer: &str) -> Option<&'a str> {
    value.pointer(pointer)?.as_str().filter(|text| !text.is_empty())
}

fn azure(value: &Value, verdict: &mut Verdict) {
    if text(value, "/internalLoadBalancer").is_none() {
        let at = path("internalLoadBalancer");
        let demand = "internalLoadBalancer is required for control plane machines";
        verdict.deny(
            Violation::new(AZURE_LOAD_BALANCER, at.as_str(), ViolationKind::Required, demand)
                .advice("name the internal load balancer of the API server, as the existing machines do"),
        );
    }
}

fn gcp(value: &Value, verdict: &mut Verdict) {
    if value
        .get("targetPools")
        .and_then(Value::as_array)
        .is_none_or(Vec::is_empty)
    {
        let text = "without target pools new machines do not join the external load balancer of the API server; a private \
                    cluster has none";
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
            let demand = format!("the volume of etcd must have at least {SMALLEST_ETCD_VOLUME} GiB");
            verdict.deny(
                Violation::new(OPENSTACK_ETCD_VOLUME, at.as_str(), ViolationKind::Invalid, demand)
                    .got(&Value::from(size))
                    .advice(format!("ask for {SMALLEST_ETCD_VOLUME} GiB or more")),
            );
        }
    }
}

fn vsphere(new: &Judged<'_>, value: &Value, infrastructure: Option<&Infrastructure>, verdict: &mut Verdict) {
    let template = text(value, "/template");
    let well_formed = |template: &str| {
        let parts: Vec<&str> = template.split('/').collect();
        matches!(parts.as_slice(), ["", datacenter, "vm", rest @ ..]
            if !datacenter.is_empty() && rest.iter().all(|part| !part.is_empty()) && !rest.is_empty())
    };
    if let Some(template) = template.filter(|template| template.contains('/') && !well_formed(template)) {
        let at = path("template");
        verdict.deny(
            Violation::new(
                VSPHERE_TEMPLATE,
                at.as_str(),
                ViolationKind::Invalid,
                "template must be provided as the full path",
            )
            .got(&Value::from(template))
            .advice("write /<datacenter>/vm/<template>, or the name of the template alone"),
        );
    }
    let Some(infrastructure) = infrastructure else { return };
    if defined_names(Platform::VSphere, infrastructure).is_empty() {
        return;
    }
    if template.is_some() {
        let text = "the failure domains of the Infrastructure decide the template: this one may be ignored";
        verdict.warn(Warning::new(VSPHERE_TEMPLATE, format!("{}: {text}", path("template"))));
    }
    if !new.spec().is_ok_and(|spec| !spec.failure_domains.is_empty()) {
        return;
    }
    let devices = value.pointer("/network/devices").and_then(Value::as_array);
    for (position, device) in devices.into_iter().flatten().enumerate() {
        if let Some(network) = text(device, "/networkName") {
            let at = path(&format!("network.devices[{position}].networkName"));
            let demand = "the failure domains decide the network";
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
            let demand = format!("the failure domains decide the {field}");
            verdict.deny(
                Violation::new(VSPHERE_WORKSPACE, at.as_str(), ViolationKind::Forbidden, demand)
                    .advice(format!("remove workspace.{field}")),
            );
        }
    }
    for field in ["folder", "resourcePool"] {
        if text(value, &format!("/workspace/{field}")).is_some() {
            let text = format!("the failure domains decide the {field}: this one may be ignored");
            verdict.warn(Warning::new(
                VSPHERE_WORKSPACE,
                format!("{}: {text}", path(&format!("workspace.{field}"))),
            ));
        }
    }
}

pub(super) fn table() -> Vec<RuleInfo> {
    const BOTH: &[Operation] = &[Operation::Create, Operation::Update];
    let rule = |id, field, message| RuleInfo::webhook(id, KIND, path(field).trim_end_matches('.'), BOTH, message);
    vec![
        rule(UNKNOWN_FIELD, "", "warns of fields that the platform does not know"),
        rule(
            AZURE_LOAD_BALANCER,
            "internalLoadBalancer",
            "Azure: the internal load balancer is named",
        ),
        rule(
            GCP_TARGET_POOLS,
            "targetPools",
            "Google Cloud: warns when there are no target pools",
        ),
        rule(
            OPENSTACK_ETCD_VOLUME,
            "additionalBlockDevices",
            "OpenStack: the volume of etcd has at least 10 GiB",
        ),
        rule(
            VSPHERE_TEMPLATE,
            "template",
            "vSphere: the template is a name or a full path",
        ),
        rule(
            VSPHERE_NETWORK,
            "network.devices",
            "vSphere: failure domains decide the network",
        ),
        rule(
            VSPHERE_WORKSPACE,
            "workspace",
            "vSphere: failure domains decide the workspace",
        ),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn set(provider_spec: &Value) -> Value {
        json!({"spec": {"template": {"machines_v1beta1_machine_openshift_io": {"spec": {"providerSpec": {"value": provider_spec}}}}}})
    }

    #[test]
    fn defaults_are_a_minimal_patch_and_filling_them_again_is_none() {
        let mut object = set(&json!({"kind": "AWSMachineProviderConfig", "credentialsSecret": {"name": "mine"}}));
        let patch = defaults(&object).unwrap();
        assert_eq!(
            serde_json::to_value(&patch).unwrap(),
            json!([{
                "op": "add",
                "path": "/spec/template/machines_v1beta1_machine_openshift_io/spec/providerSpec/value/userDataSecret",
                "value": {"name": "master-user-data"}
            }])
        );
        json_patch::patch(&mut object, &patch).unwrap();
        assert_eq!(defaults(&object), None);
    }
}
