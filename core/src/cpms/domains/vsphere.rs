//! vSphere: a name that the Infrastructure `cluster` defines as workspace, networks and template.

use serde_json::{Map, Value, json};

use super::{DomainError, lookup_error};
use crate::api::config_openshift_io::infrastructure::{Infrastructure, VSphereFailureDomainSpec};
use crate::cpms::fields::{basename, get, remove, set, text};

pub(super) fn normal(entry: &Value) -> Value {
    text(entry, &["name"]).map_or_else(|| json!({}), |name| json!({ "name": name }))
}

fn defined(infrastructure: &Infrastructure) -> &[VSphereFailureDomainSpec] {
    let platform = infrastructure.spec.platform_spec.as_ref();
    platform
        .and_then(|platform| platform.vsphere.as_ref())
        .map_or(&[], |vsphere| vsphere.failure_domains.as_slice())
}

pub(super) fn names(infrastructure: &Infrastructure) -> Vec<String> {
    let mut names: Vec<String> = defined(infrastructure)
        .iter()
        .map(|domain| domain.name.clone())
        .collect();
    names.sort();
    names
}

/// The workspace of the machines of a failure domain in the form of a provider spec.
fn workspace(domain: &VSphereFailureDomainSpec, infrastructure_name: &str) -> Value {
    let topology = &domain.topology;
    let pool = given(topology.resource_pool.as_deref())
        .map_or_else(|| format!("{}/Resources", topology.compute_cluster), str::to_owned);
    let folder = given(topology.folder.as_deref()).map_or_else(
        || format!("/{}/vm/{infrastructure_name}", topology.datacenter),
        str::to_owned,
    );
    let mut workspace = json!({
        "server": domain.server,
        "datacenter": topology.datacenter,
        "datastore": topology.datastore,
        "resourcePool": pool,
        "folder": folder,
    });
    if let Some(group) = vm_group(domain) {
        set(&mut workspace, &["vmGroup"], json!(group));
    }
    workspace
}

fn vm_group(domain: &VSphereFailureDomainSpec) -> Option<&str> {
    text(domain.zone_affinity.as_ref()?, &["hostGroup", "vmGroup"])
}

fn given(text: Option<&str>) -> Option<&str> {
    text.filter(|text| !text.is_empty())
}

/// The failure domain that the workspace describes. The folder is ignored: machines of one failure
/// domain may be in different folders.
pub(super) fn extract(spec: &Value, infrastructure: Option<&Infrastructure>) -> Option<Value> {
    let at = spec.get("workspace")?;
    let same = |domain: &&VSphereFailureDomainSpec| {
        let there = workspace(domain, "");
        let plain = |field| text(at, &[field]) == text(&there, &[field]);
        let pools = [at, &there].map(|workspace| clean_path(text(workspace, &["resourcePool"]).unwrap_or_default()));
        let [pool, domain_pool] = pools;
        ["server", "datacenter", "datastore", "vmGroup"].into_iter().all(plain) && pool == domain_pool
    };
    let domain = defined(infrastructure?).iter().find(same)?;
    Some(json!({ "name": domain.name }))
}

/// The path without redundant parts: `/dc//host/./cluster/` is `/dc/host/cluster`.
fn clean_path(path: &str) -> String {
    let parts: Vec<&str> = path
        .split('/')
        .filter(|part| !part.is_empty() && *part != ".")
        .collect();
    parts.join("/")
}

pub(super) fn inject(
    spec: &mut Value,
    full: &Value,
    infrastructure: Option<&Infrastructure>,
) -> Result<(), DomainError> {
    let name = text(full, &["name"]).unwrap_or_default();
    let found = infrastructure.and_then(|all| Some((all, defined(all).iter().find(|domain| domain.name == name)?)));
    let Some((infrastructure, domain)) = found else {
        return Err(lookup_error(name, infrastructure.map(names)));
    };
    let cluster = &infrastructure.status.infrastructure_name;
    set(spec, &["workspace"], workspace(domain, cluster));
    let template = given(domain.topology.template.as_deref()).map_or_else(
        || format!("{cluster}-rhcos-{}-{}", domain.region, domain.zone),
        |path| basename(path).to_owned(),
    );
    set(spec, &["template"], json!(template));
    let devices = devices(spec, &domain.topology.networks);
    set(spec, &["network", "devices"], devices);
    Ok(())
}

/// One device for each network of the failure domain. The addresses of the template are kept only
/// if they come from pools, because other addresses belong to one machine.
fn devices(spec: &Value, networks: &[String]) -> Value {
    let own: &[Value] = get(spec, &["network", "devices"])
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice);
    let from_pools = own
        .first()
        .is_some_and(|device| get(device, &["addressesFromPools"]).is_some());
    let device = |(position, network): (usize, &String)| {
        let mut device = own
            .get(position)
            .filter(|device| from_pools && device.is_object())
            .cloned()
            .unwrap_or_else(|| json!({}));
        set(&mut device, &["networkName"], json!(network));
        device
    };
    Value::Array(networks.iter().enumerate().map(device).collect())
}

pub(super) fn strip(spec: &mut Value) {
    remove(spec, &["workspace"]);
    remove(spec, &["template"]);
    let Some(devices) = spec
        .get_mut("network")
        .and_then(|network| network.get_mut("devices"))
        .and_then(Value::as_array_mut)
    else {
        return;
    };
    for device in devices.iter_mut() {
        remove(device, &["networkName"]);
    }
    devices.retain(|device| {
        device
            .as_object()
            .is_none_or(|map: &Map<String, Value>| !map.is_empty())
    });
    if devices.is_empty() {
        remove(spec, &["network", "devices"]);
    }
}

pub(super) fn label(entry: &Value) -> String {
    text(entry, &["name"]).unwrap_or("unnamed").to_owned()
}
