//! What follows an upgrade in the managed cluster: the image of kube-proxy, and CoreDNS with its
//! configuration.
//!
//! Nothing changes while a machine is created, replaced, or deleted: kube-proxy must not be newer
//! than an API server.

use serde_json::Value;

use super::action::Plan;
use super::core_dns::upgrade::{self, Change};
use super::kube_proxy;
use super::kubeadm_configuration;
use super::state::State;

/// What was read of the managed cluster. What does not exist is `None`, and stays so.
#[derive(Clone, Copy, Debug, Default)]
pub struct Addons<'a> {
    /// The configuration in the ConfigMap `kubeadm-config`.
    pub configuration: Option<&'a str>,
    /// The DaemonSet of kube-proxy.
    pub kube_proxy: Option<&'a Value>,
    /// The ConfigMap and the Deployment of CoreDNS.
    pub core_dns: Option<(&'a Value, &'a Value)>,
}

/// One change of one object.
#[derive(Clone, Debug, PartialEq)]
pub enum AddonChange {
    /// The new configuration in the ConfigMap `kubeadm-config`.
    Configuration(String),
    /// A merge patch of the DaemonSet of kube-proxy.
    KubeProxy(Value),
    /// A merge patch of the ConfigMap of CoreDNS.
    CoreDnsConfigMap(Value),
    /// A merge patch of the Deployment of CoreDNS.
    CoreDnsDeployment(Value),
}

impl AddonChange {
    /// What the change does, for a log.
    pub fn title(&self) -> &'static str {
        match self {
            Self::Configuration(_) => "storing the image of CoreDNS in kubeadm-config",
            Self::KubeProxy(_) => "changing the image of kube-proxy",
            Self::CoreDnsConfigMap(_) => "migrating the configuration of CoreDNS",
            Self::CoreDnsDeployment(_) => "changing the Deployment of CoreDNS",
        }
    }
}

/// Whether all machines are as the control plane wants them.
pub fn is_due(state: &State, plan: &Plan) -> bool {
    let is_complete = state.replicas() == Some(state.machines.len());
    let may_act = state.is_initialized() && !state.is_deleting() && !state.is_paused();
    let is_calm = plan.steps.is_empty() && plan.degraded.is_empty();
    may_act && is_calm && is_complete && state.outdated().is_empty() && state.deleting().next().is_none()
}

/// The next change, if the machines are complete.
///
/// # Errors
/// Why an addon stays as it is. The others are changed first.
pub fn next(state: &State, plan: &Plan, addons: &Addons<'_>) -> Result<Option<AddonChange>, String> {
    if !is_due(state, plan) {
        return Ok(None);
    }
    let kube_proxy = addons.kube_proxy.map(|object| kube_proxy::patch(state, object));
    let mut problem = None;
    match kube_proxy {
        Some(Ok(Some(patch))) => return Ok(Some(AddonChange::KubeProxy(patch))),
        Some(Err(error)) => problem = Some(format!("kube-proxy stays as it is: {error}")),
        Some(Ok(None)) | None => {}
    }
    let problem_of_dns = match core_dns(state, addons) {
        Ok(Some(change)) => return Ok(Some(change)),
        Ok(None) => None,
        Err(error) => Some(format!("CoreDNS stays as it is: {error}")),
    };
    let problems: Vec<String> = problem.into_iter().chain(problem_of_dns).collect();
    if problems.is_empty() {
        return Ok(None);
    }
    Err(problems.join("; "))
}

fn core_dns(state: &State, addons: &Addons<'_>) -> Result<Option<AddonChange>, String> {
    let (Some((config_map, deployment)), Some(stored)) = (addons.core_dns, addons.configuration) else {
        return Ok(None);
    };
    let change = |is_configured| upgrade::next(state, config_map, deployment, is_configured);
    let found = match change(false)? {
        // The stored configuration is read only if something changes.
        Some(Change::Configuration) => match kubeadm_configuration::with_dns(state, stored)? {
            Some(text) => return Ok(Some(AddonChange::Configuration(text))),
            None => change(true)?,
        },
        found => found,
    };
    Ok(match found {
        Some(Change::ConfigMap(patch)) => Some(AddonChange::CoreDnsConfigMap(patch)),
        Some(Change::Deployment(patch)) => Some(AddonChange::CoreDnsDeployment(patch)),
        Some(Change::Configuration) | None => None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kcp::plan::plan;
    use crate::kcp::samples::{World, now};

    fn next_of(world: &World, addons: &Addons<'_>) -> Result<Option<AddonChange>, String> {
        let state = world.state();
        next(&state, &plan(&state, now()), addons)
    }

    fn workload(name: &str, image: &str) -> Value {
        json!({"spec": {"template": {"spec": {"containers": [{"name": name, "image": image}]}}}})
    }

    #[test]
    fn addons_wait_until_all_machines_have_the_version() {
        let mut world = World::new("abc");
        let daemon_set = workload("kube-proxy", "registry.k8s.io/kube-proxy:v1.29.0");
        let addons = Addons {
            kube_proxy: Some(&daemon_set),
            ..Addons::default()
        };
        assert!(matches!(next_of(&world, &addons), Ok(Some(AddonChange::KubeProxy(_)))));
        world.outdated(0);
        assert_eq!(next_of(&world, &addons), Ok(None));
        let mut world = World::new("abc");
        world.delete(0);
        assert_eq!(next_of(&world, &addons), Ok(None));
        world.spec()["replicas"] = json!(5);
        assert_eq!(next_of(&world, &addons), Ok(None));
    }

    #[test]
    fn core_dns_is_upgraded_also_if_kube_proxy_cannot_be() {
        let mut world = World::new("abc");
        world.spec()["kubeadmConfigSpec"]["clusterConfiguration"]["dns"] = json!({"imageTag": "v1.12.1"});
        let daemon_set = workload("kube-proxy", "registry.k8s.io/kube-proxy@sha256:1");
        let deployment = workload("coredns", "registry.k8s.io/coredns/coredns:v1.11.1");
        let config_map = json!({"data": {"Corefile": "a {\n}\n"}});
        let stored = "apiVersion: kubeadm.k8s.io/v1beta3\n";
        let mut addons = Addons {
            configuration: Some(stored),
            kube_proxy: Some(&daemon_set),
            core_dns: Some((&config_map, &deployment)),
        };
        let Ok(Some(AddonChange::Configuration(text))) = next_of(&world, &addons) else {
            panic!("{:?}", next_of(&world, &addons));
        };
        assert!(text.contains("v1.12.1"), "{text}");
        addons.configuration = Some(&text);
        let change = next_of(&world, &addons);
        assert!(
            matches!(change, Ok(Some(AddonChange::CoreDnsDeployment(_)))),
            "{change:?}"
        );
        let done = workload("coredns", "registry.k8s.io/coredns/coredns:v1.12.1");
        addons.core_dns = Some((&config_map, &done));
        let problem = next_of(&world, &addons).unwrap_err();
        assert!(problem.contains("digest"), "{problem}");
    }
}
