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

/// The domain that the workspace describes. The folder does not count, because machines of one
/// domain may be in different folders. Of several domains with the same workspace, it is the first
/// one that also has the networks, the template and the folder of the machine, in this order of
/// importance.
pub(super) fn extract(spec: &Value, infrastructure: Option<&Infrastructure>) -> Option<Value> {
    let at = spec.get("workspace")?;
    let infrastructure = infrastructure?;
    let same = |domain: &&VSphereFailureDomainSpec| {
        let there = workspace(domain, "");
        let plain = |field| text(at, &[field]) == text(&there, &[field]);
        let pools = [at, &there].map(|workspace| clean_path(text(workspace, &["resourcePool"]).unwrap_or_default()));
        let [pool, domain_pool] = pools;
        ["server", "datacenter", "datastore", "vmGroup"].into_iter().all(plain) && pool == domain_pool
    };
    let others = |domain: &VSphereFailureDomainSpec| {
        let cluster = &infrastructure.status.infrastructure_name;
        let template = text(spec, &["template"]).map(basename);
        let folder = text(at, &["folder"]).map(clean_path);
        (
            networks(spec).eq(domain.topology.networks.iter().map(String::as_str)),
            template == Some(template_name(domain, cluster).as_str()),
            folder == text(&workspace(domain, cluster), &["folder"]).map(clean_path),
        )
    };
    let mut candidates = defined(infrastructure).iter().filter(same);
    let mut best = candidates.next()?;
    for domain in candidates {
        if others(domain) > others(best) {
            best = domain;
        }
    }
    Some(json!({ "name": best.name }))
}

/// The networks of the devices, in their order.
fn networks(spec: &Value) -> impl Iterator<Item = &str> {
    let devices = get(spec, &["network", "devices"]).and_then(Value::as_array);
    let devices = devices.into_iter().flatten();
    devices.map(|device| text(device, &["networkName"]).unwrap_or_default())
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
    set(spec, &["template"], json!(template_name(domain, cluster)));
    let devices = devices(spec, &domain.topology.networks);
    set(spec, &["network", "devices"], devices);
    Ok(())
}

/// The template from which machines of the domain are cloned, without its folder.
fn template_name(domain: &VSphereFailureDomainSpec, cluster: &str) -> String {
    given(domain.topology.template.as_deref()).map_or_else(
        || format!("{cluster}-rhcos-{}-{}", domain.region, domain.zone),
        |path| basename(path).to_owned(),
    )
}

/// One device for each network of the domain. The addresses of the template are kept only if they
/// come from pools, because other addresses belong to one machine.
fn devices(spec: &Value, networks: &[String]) -> Value {
    let own: &[Value] = get(spec, &["network", "devices"])
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice);
    let from_pools = own.first().is_some_and(is_from_pools);
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

fn is_from_pools(device: &Value) -> bool {
    get(device, &["addressesFromPools"]).is_some()
}

/// Leaves out what [`devices`] does not take over from the template.
pub(super) fn leave_out_other_devices(template: &mut Value, machine: &mut Value) {
    let count = networks(machine).count();
    let wanted = template
        .get_mut("network")
        .and_then(|network| network.get_mut("devices"));
    let Some(wanted) = wanted.and_then(Value::as_array_mut) else {
        return;
    };
    if wanted.first().is_some_and(is_from_pools) {
        wanted.truncate(count);
    } else {
        wanted.clear();
    }
    if wanted.is_empty() {
        remove(template, &["network", "devices"]);
    }
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
