//! The kubeadm configuration in a control plane.

use serde_json::Value;

use super::row::How::{Arguments, Seconds};
use super::row::{self, Row};
use super::tree::{get, remove, set, take};

const ROWS: &[Row] = &[
    (
        "clusterConfiguration.apiServer.extraArgs",
        "clusterConfiguration.apiServer.extraArgs",
        Arguments,
    ),
    (
        "clusterConfiguration.controllerManager.extraArgs",
        "clusterConfiguration.controllerManager.extraArgs",
        Arguments,
    ),
    (
        "clusterConfiguration.scheduler.extraArgs",
        "clusterConfiguration.scheduler.extraArgs",
        Arguments,
    ),
    (
        "clusterConfiguration.etcd.local.extraArgs",
        "clusterConfiguration.etcd.local.extraArgs",
        Arguments,
    ),
    (
        "initConfiguration.nodeRegistration.kubeletExtraArgs",
        "initConfiguration.nodeRegistration.kubeletExtraArgs",
        Arguments,
    ),
    (
        "joinConfiguration.nodeRegistration.kubeletExtraArgs",
        "joinConfiguration.nodeRegistration.kubeletExtraArgs",
        Arguments,
    ),
    (
        "clusterConfiguration.apiServer.timeoutForControlPlane",
        INIT_TIMEOUT,
        Seconds,
    ),
    (
        "joinConfiguration.discovery.timeout",
        "joinConfiguration.timeouts.tlsBootstrapSeconds",
        Seconds,
    ),
];

/// A switch that is off if it is absent in `v1beta1`, and unset in `v1beta2`.
const STRICT: &[&str] = &["ignition", "containerLinuxConfig", "strict"];

/// The rows for each token in `initConfiguration.bootstrapTokens`.
const TOKEN: &[Row] = &[("ttl", "ttlSeconds", Seconds)];

const INIT_TIMEOUT: &str = "initConfiguration.timeouts.controlPlaneComponentHealthCheckSeconds";
const JOIN_TIMEOUT: [&str; 3] = [
    "joinConfiguration",
    "timeouts",
    "controlPlaneComponentHealthCheckSeconds",
];

/// Fields that only `v1beta1` has.
const ONLY_V1BETA1: &[&[&str]] = &[
    &["useExperimentalRetryJoin"],
    &["clusterConfiguration", "apiVersion"],
    &["clusterConfiguration", "kind"],
    &["clusterConfiguration", "networking"],
    &["clusterConfiguration", "kubernetesVersion"],
    &["clusterConfiguration", "clusterName"],
    &["initConfiguration", "apiVersion"],
    &["initConfiguration", "kind"],
    &["joinConfiguration", "apiVersion"],
    &["joinConfiguration", "kind"],
];

/// Fields that only `v1beta2` has.
const ONLY_V1BETA2: &[&[&str]] = &[&["initConfiguration", "timeouts"], &["joinConfiguration", "timeouts"]];

pub(super) fn up(spec: &mut Value) {
    let Some(config) = spec.get_mut("kubeadmConfigSpec") else {
        return;
    };
    for path in ONLY_V1BETA1 {
        take(config, path);
    }
    if get(config, STRICT) == Some(&Value::Bool(false)) {
        take(config, STRICT);
    }
    row::up(config, ROWS);
    tokens(config, row::up);
    // In v1beta1, one timeout is for the first machine and for the machines that join.
    let path: Vec<&str> = INIT_TIMEOUT.split('.').collect();
    if let Some(timeout) = get(config, &path).cloned() {
        set(config, &JOIN_TIMEOUT, timeout);
    }
}

pub(super) fn down(spec: &mut Value) {
    let Some(config) = spec.get_mut("kubeadmConfigSpec") else {
        return;
    };
    tokens(config, row::down);
    row::down(config, ROWS);
    for path in ONLY_V1BETA2 {
        if get(config, path).is_some() {
            remove(config, path);
            take_if_empty(config, path);
        }
    }
}

/// Removes the object above a field that was removed, if it is empty now.
fn take_if_empty(config: &mut Value, path: &[&str]) {
    let above = path.split_last().map_or(&[][..], |(_, above)| above);
    let is_empty = get(config, above)
        .and_then(Value::as_object)
        .is_some_and(serde_json::Map::is_empty);
    if is_empty {
        take(config, above);
    }
}

fn tokens(config: &mut Value, convert: fn(&mut Value, &[Row])) {
    let tokens = config.pointer_mut("/initConfiguration/bootstrapTokens");
    for token in tokens.and_then(Value::as_array_mut).into_iter().flatten() {
        convert(token, TOKEN);
    }
}
