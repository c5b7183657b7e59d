//! The schemas of `initConfiguration` and `joinConfiguration`: how a machine becomes a node.

use serde_json::{Value, json};

use super::build::{
    Object, Version, boolean, int32_from, int32_from_in_v1beta2, list, map, one_of, string, text, time,
};
use super::components::arguments;

/// The schema of `initConfiguration`.
pub(super) fn init_configuration(version: Version) -> Value {
    machine_configuration(version)
        .field(
            "bootstrapTokens",
            list(version, 100, &bootstrap_token(version)),
            "Tokens that kubeadm creates for machines that join.",
        )
        .field(
            "localAPIEndpoint",
            endpoint(version),
            "The address of the API server on this machine.",
        )
        .not_empty()
}

/// The schema of `joinConfiguration`.
pub(super) fn join_configuration(version: Version) -> Value {
    machine_configuration(version)
        .field(
            "caCertPath",
            text(512),
            "The file of the certificate authority of the cluster.",
        )
        .field(
            "discovery",
            discovery(version),
            "How the machine finds and trusts the cluster.",
        )
        .field(
            "controlPlane",
            Object::new(version)
                .field(
                    "localAPIEndpoint",
                    endpoint(version),
                    "The address of the API server on this machine.",
                )
                .build(),
            "The machine joins the control plane. An empty object has this meaning too.",
        )
        .not_empty()
}

/// The fields that both configurations have.
fn machine_configuration(version: Version) -> Object {
    Object::new(version)
        .v1beta1("apiVersion", string(), "Ignored: the version of the kubeadm API.")
        .v1beta1("kind", string(), "Ignored: the kind in the kubeadm API.")
        .field(
            "nodeRegistration",
            node_registration(version),
            "How the kubelet registers the node.",
        )
        .field(
            "patches",
            Object::new(version)
                .field("directory", text(512), "The folder of the patches on the machine.")
                .not_empty(),
            "Patches of the manifests that kubeadm writes.",
        )
        .field(
            "skipPhases",
            list(version, 50, &text(256)),
            "Phases of kubeadm that are skipped.",
        )
        .v1beta2("timeouts", timeouts(version), "How long kubeadm waits, in seconds.")
}

fn node_registration(version: Version) -> Value {
    let taint = Object::new(version)
        .required("key", string(), "The key of the taint.")
        .field("value", string(), "The value of the taint.")
        .required("effect", string(), "The effect on pods that do not tolerate the taint.")
        .field("timeAdded", time(), "When the taint was added.")
        .build();
    let mut taints = json!({"type": "array", "maxItems": 100, "items": taint});
    if let (Version::V1Beta2, Some(taints)) = (version, taints.as_object_mut()) {
        taints.insert("minItems".into(), 0.into());
    }
    Object::new(version)
        .field("name", text(253), "The name of the node. The default is the host name.")
        .field("criSocket", text(512), "The socket of the container runtime.")
        .field(
            "taints",
            taints,
            "The taints of the node. An empty list means no taints.",
        )
        .field("kubeletExtraArgs", arguments(version), "Arguments of the kubelet.")
        .field(
            "ignorePreflightErrors",
            list(version, 50, &text(512)),
            "Preflight checks of kubeadm whose errors are ignored.",
        )
        .field(
            "imagePullPolicy",
            one_of(&["Always", "IfNotPresent", "Never"]),
            "When kubeadm pulls images. The default is IfNotPresent.",
        )
        .field(
            "imagePullSerial",
            boolean(),
            "Whether images are pulled one after the other.",
        )
        .not_empty()
}

fn timeouts(version: Version) -> Value {
    let seconds = || int32_from(0);
    Object::new(version)
        .field(
            "controlPlaneComponentHealthCheckSeconds",
            seconds(),
            "The time limit until the components of the control plane are healthy.",
        )
        .field(
            "kubeletHealthCheckSeconds",
            seconds(),
            "The time limit until the kubelet is healthy.",
        )
        .field(
            "kubernetesAPICallSeconds",
            seconds(),
            "The time limit of a request to the API server.",
        )
        .field("etcdAPICallSeconds", seconds(), "The time limit of a request to etcd.")
        .field(
            "tlsBootstrapSeconds",
            seconds(),
            "The time limit until the kubelet has its certificate.",
        )
        .field(
            "discoverySeconds",
            seconds(),
            "The time limit until a machine that joins knows the cluster.",
        )
        .not_empty()
}

fn endpoint(version: Version) -> Value {
    Object::new(version)
        .field(
            "advertiseAddress",
            text(39),
            "The IP address that the API server advertises.",
        )
        .field(
            "bindPort",
            int32_from_in_v1beta2(version, 1),
            "The port of the API server.",
        )
        .not_empty()
}

fn bootstrap_token(version: Version) -> Value {
    let token = match version {
        Version::V1Beta1 => string(),
        Version::V1Beta2 => text(23),
    };
    Object::new(version)
        .required("token", token, "The token, as ID.SECRET.")
        .field("description", text(512), "What the token is for.")
        .v1beta1("ttl", string(), "How long the token is valid, such as 24h0m0s.")
        .v1beta2("ttlSeconds", int32_from(0), "How long the token is valid, in seconds.")
        .field("expires", time(), "When the token expires.")
        .field(
            "usages",
            list(version, 100, &text(256)),
            "What the token can be used for.",
        )
        .field(
            "groups",
            list(version, 100, &text(256)),
            "The groups of a client with the token.",
        )
        .build()
}

fn discovery(version: Version) -> Value {
    Object::new(version)
        .field(
            "bootstrapToken",
            token_discovery(version),
            "The cluster is found with a bootstrap token.",
        )
        .field(
            "file",
            Object::new(version)
                .required(
                    "kubeConfigPath",
                    text(512),
                    "The path of the kubeconfig on the machine.",
                )
                .field(
                    "kubeConfig",
                    kube_config(version),
                    "The content of the kubeconfig that is written there.",
                )
                .build(),
            "The cluster is found with a kubeconfig.",
        )
        .field(
            "tlsBootstrapToken",
            text(512),
            "The token for the certificate of the kubelet.",
        )
        .v1beta1("timeout", string(), "The time limit of the discovery, such as 5m0s.")
        .not_empty()
}

fn token_discovery(version: Version) -> Value {
    Object::new(version)
        .field("token", text(512), "The token.")
        .field("apiServerEndpoint", text(512), "The address of the API server.")
        .field(
            "caCertHashes",
            list(version, 100, &text(512)),
            "Hashes of the public keys of certificate authorities that are trusted.",
        )
        .field(
            "unsafeSkipCAVerification",
            boolean(),
            "Whether the certificate authority is trusted without a hash.",
        )
        .not_empty()
}

fn kube_config(version: Version) -> Value {
    let authority = json!({"type": "string", "format": "byte", "minLength": 1, "maxLength": 51200});
    let cluster = Object::new(version)
        .field("server", text(512), "The address of the API server.")
        .field(
            "tlsServerName",
            text(512),
            "The name in the certificate of the API server.",
        )
        .field(
            "insecureSkipTLSVerify",
            boolean(),
            "Whether the certificate of the API server is not verified.",
        )
        .field(
            "certificateAuthorityData",
            authority,
            "The certificate authority, as PEM in base64.",
        )
        .field("proxyURL", text(512), "The proxy for requests.")
        .not_empty();
    let provider = Object::new(version)
        .required("name", text(256), "The name of the plugin.")
        .field("config", map(&string()), "The configuration of the plugin.")
        .build();
    let user = Object::new(version)
        .field(
            "authProvider",
            provider,
            "A plugin that provides credentials. It excludes exec.",
        )
        .field(
            "exec",
            exec(version),
            "A command that provides credentials. It excludes authProvider.",
        )
        .not_empty();
    Object::new(version)
        .field("cluster", cluster, "How the machine connects to the cluster.")
        .required("user", user, "How the machine authenticates.")
        .build()
}

fn exec(version: Version) -> Value {
    let variable = Object::new(version)
        .required("name", text(512), "The name of the variable.")
        .required("value", text(512), "The value of the variable.")
        .build();
    Object::new(version)
        .required("command", text(1024), "The command.")
        .field("args", list(version, 100, &text(512)), "The arguments of the command.")
        .field(
            "env",
            list(version, 100, &variable),
            "Environment variables of the command.",
        )
        .field("apiVersion", text(512), "The version of the API of the command.")
        .field(
            "provideClusterInfo",
            boolean(),
            "Whether the command gets information about the cluster.",
        )
        .build()
}
