//! The fields of the configuration of kubeadm in Cluster API 1.14.
//!
//! A live object can have fields of a newer CRD, which also sets their defaults. Nothing is known
//! about them, so they must not make a machine outdated.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use serde_json::Value;

/// The fields of each object, by the name of the field that contains the object. Maps are not
/// listed.
const FIELDS: &[(&str, &str)] = &[
    ("apiServer", "certSANs extraArgs extraEnvs extraVolumes"),
    ("authProvider", "config name"),
    (
        "bootstrapToken",
        "apiServerEndpoint caCertHashes token unsafeSkipCAVerification",
    ),
    ("bootstrapTokens", "description expires groups token ttlSeconds usages"),
    (
        "cluster",
        "certificateAuthorityData insecureSkipTLSVerify proxyURL server tlsServerName",
    ),
    (
        "clusterConfiguration",
        "apiServer caCertificateValidityPeriodDays certificateValidityPeriodDays certificatesDir \
         controlPlaneEndpoint controllerManager dns encryptionAlgorithm etcd featureGates imageRepository \
         scheduler",
    ),
    ("configMapKeyRef", "key name optional"),
    ("containerLinuxConfig", "additionalConfig strict"),
    ("contentFrom", "secret"),
    ("controlPlane", "localAPIEndpoint"),
    ("controllerManager", "extraArgs extraEnvs extraVolumes"),
    ("discovery", "bootstrapToken file tlsBootstrapToken"),
    ("diskLayout", "partitionType percentage"),
    ("diskSetup", "filesystems partitions"),
    ("dns", "imageRepository imageTag"),
    ("env", "name value"),
    ("etcd", "external local"),
    ("exec", "apiVersion args command env provideClusterInfo"),
    ("external", "caFile certFile endpoints keyFile"),
    ("extraArgs", "name value"),
    ("extraEnvs", "name value valueFrom"),
    ("extraVolumes", "hostPath mountPath name pathType readOnly"),
    ("fieldRef", "apiVersion fieldPath"),
    ("file", "kubeConfig kubeConfigPath"),
    ("fileKeyRef", "key optional path volumeName"),
    (
        "files",
        "append content contentFormat contentFrom encoding owner path permissions",
    ),
    (
        "filesystems",
        "device extraOpts filesystem label overwrite partition replaceFS",
    ),
    ("ignition", "containerLinuxConfig"),
    (
        "initConfiguration",
        "bootstrapTokens localAPIEndpoint nodeRegistration patches skipPhases timeouts",
    ),
    (
        "joinConfiguration",
        "caCertPath controlPlane discovery nodeRegistration patches skipPhases timeouts",
    ),
    ("kubeConfig", "cluster user"),
    (
        "kubeadmConfigSpec",
        "bootCommands clusterConfiguration diskSetup files format ignition initConfiguration \
         joinConfiguration mounts ntp postKubeadmCommands preKubeadmCommands users verbosity",
    ),
    ("kubeletExtraArgs", "name value"),
    (
        "local",
        "dataDir extraArgs extraEnvs imageRepository imageTag peerCertSANs serverCertSANs",
    ),
    ("localAPIEndpoint", "advertiseAddress bindPort"),
    (
        "nodeRegistration",
        "criSocket ignorePreflightErrors imagePullPolicy imagePullSerial kubeletExtraArgs name taints",
    ),
    ("ntp", "enabled servers"),
    ("partitions", "device diskLayout layout overwrite tableType"),
    ("passwdFrom", "secret"),
    ("patches", "directory"),
    ("resourceFieldRef", "containerName divisor resource"),
    ("scheduler", "extraArgs extraEnvs extraVolumes"),
    ("secret", "key name"),
    ("secretKeyRef", "key name optional"),
    ("taints", "effect key timeAdded value"),
    (
        "timeouts",
        "controlPlaneComponentHealthCheckSeconds discoverySeconds etcdAPICallSeconds \
         kubeletHealthCheckSeconds kubernetesAPICallSeconds tlsBootstrapSeconds",
    ),
    ("user", "authProvider exec"),
    (
        "users",
        "gecos groups homeDir inactive lockPassword name passwd passwdFrom primaryGroup shell \
         sshAuthorizedKeys sudo",
    ),
    (
        "valueFrom",
        "configMapKeyRef fieldRef fileKeyRef resourceFieldRef secretKeyRef",
    ),
];

/// The name of the field that contains the whole configuration.
pub(super) const ROOT: &str = "kubeadmConfigSpec";

/// A value of the field `name` without the fields that are not known.
pub(super) fn only_known(name: &str, value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let known = known_fields(name);
            let is_known = |field: &str| known.is_none_or(|known| known.contains(field));
            let kept = fields.into_iter().filter(|(field, _)| is_known(field));
            kept.map(|(field, value)| {
                let value = only_known(&field, value);
                (field, value)
            })
            .collect()
        }
        Value::Array(items) => items.into_iter().map(|item| only_known(name, item)).collect(),
        other => other,
    }
}

/// The fields of the objects with this name; `None` for an object with any fields.
fn known_fields(name: &str) -> Option<&'static BTreeSet<&'static str>> {
    static KNOWN: LazyLock<BTreeMap<&str, BTreeSet<&str>>> = LazyLock::new(|| {
        let known = FIELDS.iter().map(|(name, fields)| (*name, fields.split(' ').collect()));
        known.collect()
    });
    KNOWN.get(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walk<'s>(name: &'s str, schema: &'s Value, found: &mut BTreeMap<&'s str, String>) {
        if let Some(fields) = schema["properties"].as_object() {
            let mut names: Vec<&str> = fields.keys().map(String::as_str).collect();
            names.sort_unstable();
            let names = names.join(" ");
            assert!(found.get(name).is_none_or(|other| *other == names), "{name}");
            found.insert(name, names);
            fields.iter().for_each(|(name, schema)| walk(name, schema, found));
        } else if schema["items"].is_object() {
            walk(name, &schema["items"], found);
        }
    }

    #[test]
    fn v60_the_known_fields_are_those_of_the_crd() {
        let crd = include_str!(
            "../../../manifests/crds-kubeadm-control-plane/controlplane.cluster.x-k8s.io_kubeadmcontrolplanes.yaml"
        );
        let crd: Value = serde_saphyr::from_str(crd).unwrap();
        let versions = crd["spec"]["versions"].as_array().unwrap();
        let version = versions.iter().find(|version| version["name"] == "v1beta2").unwrap();
        let spec = &version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"];
        let mut found = BTreeMap::new();
        walk(ROOT, &spec[ROOT], &mut found);
        let listed: BTreeMap<&str, String> = FIELDS
            .iter()
            .map(|(name, fields)| (*name, (*fields).to_owned()))
            .collect();
        assert_eq!(listed, found);
        assert_eq!(listed.len(), FIELDS.len());
    }
}
