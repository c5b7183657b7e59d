//! The schema of `clusterConfiguration`: the configuration of the whole cluster.

use serde_json::Value;

use super::build::{Object, Version, boolean, int32_in, list, map, one_of, string, text};
use super::components::{api_server, arguments, component, variables};

/// The schema of `clusterConfiguration`.
pub(super) fn cluster_configuration(version: Version) -> Value {
    Object::new(version)
        .v1beta1("apiVersion", string(), "Ignored: the version of the kubeadm API.")
        .v1beta1("kind", string(), "Ignored: the kind in the kubeadm API.")
        .field(
            "etcd",
            etcd(version),
            "The etcd of the cluster. The default is a member on each machine.",
        )
        .v1beta1(
            "networking",
            networking(version),
            "The networks of the cluster. The default is that of the Cluster.",
        )
        .v1beta1(
            "kubernetesVersion",
            text(256),
            "The version of Kubernetes. The version of the control plane replaces it.",
        )
        .field(
            "controlPlaneEndpoint",
            text(512),
            "The address of the API server, as HOST:PORT. The default is the endpoint of the Cluster.",
        )
        .field("apiServer", api_server(version), "Options of the API server.")
        .field(
            "controllerManager",
            component(version).not_empty(),
            "Options of the controller manager.",
        )
        .field("scheduler", component(version).not_empty(), "Options of the scheduler.")
        .field("dns", image(version).not_empty(), "The image of CoreDNS.")
        .field(
            "certificatesDir",
            text(512),
            "The folder of the certificates on the machines. The default is /etc/kubernetes/pki.",
        )
        .field(
            "imageRepository",
            text(512),
            "The registry of the images of the control plane.",
        )
        .field("featureGates", map(&boolean()), "Feature gates of kubeadm.")
        .v1beta1("clusterName", text(63), "The name of the cluster.")
        .field(
            "certificateValidityPeriodDays",
            int32_in(1, 1095),
            "How long certificates are valid, in days. The default is 365.",
        )
        .field(
            "caCertificateValidityPeriodDays",
            int32_in(1, 36500),
            "How long the certificates of authorities are valid, in days. The default is 3650.",
        )
        .field(
            "encryptionAlgorithm",
            one_of(&["ECDSA-P256", "ECDSA-P384", "RSA-2048", "RSA-3072", "RSA-4096"]),
            "The algorithm of the keys of certificates. The default is RSA-2048.",
        )
        .not_empty()
}

fn etcd(version: Version) -> Value {
    Object::new(version)
        .field(
            "local",
            local_etcd(version),
            "An etcd member on each machine. It excludes external.",
        )
        .field(
            "external",
            Object::new(version)
                .required(
                    "endpoints",
                    list(version, 50, &text(512)),
                    "The addresses of the members.",
                )
                .required("caFile", text(512), "The file of the certificate authority.")
                .required("certFile", text(512), "The file of the client certificate.")
                .required("keyFile", text(512), "The file of the client key.")
                .build(),
            "An etcd that the cluster does not manage. It excludes local.",
        )
        .not_empty()
}

fn local_etcd(version: Version) -> Value {
    let names = |what: &str| format!("Additional names and addresses in the {what} certificate.");
    image(version)
        .field(
            "dataDir",
            text(512),
            "The folder of the data. The default is /var/lib/etcd.",
        )
        .field(
            "extraArgs",
            arguments(version),
            "Arguments in addition to those that kubeadm sets.",
        )
        .field("extraEnvs", variables(version), "Environment variables of etcd.")
        .field("serverCertSANs", list(version, 100, &text(253)), &names("server"))
        .field("peerCertSANs", list(version, 100, &text(253)), &names("peer"))
        .not_empty()
}

fn image(version: Version) -> Object {
    Object::new(version)
        .field("imageRepository", text(512), "The registry of the image.")
        .field("imageTag", text(256), "The tag of the image.")
}

fn networking(version: Version) -> Value {
    Object::new(version)
        .field("serviceSubnet", text(1024), "The subnets of Services.")
        .field("podSubnet", text(1024), "The subnets of pods.")
        .field("dnsDomain", text(253), "The DNS domain of Services.")
        .build()
}
