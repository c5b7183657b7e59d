use serde_json::{Value, json};

use super::*;
use crate::kcp::samples::World;

const STORED: &str = r#"apiServer:
  extraArgs:
    authorization-mode: Node,RBAC
  timeoutForControlPlane: 4m0s
apiVersion: kubeadm.k8s.io/v1beta3
certificatesDir: /etc/kubernetes/pki
clusterName: c
controlPlaneEndpoint: 10.0.0.1:6443
controllerManager: {}
dns: {}
etcd:
  local:
    dataDir: /var/lib/other
imageRepository: old.example.org
kind: ClusterConfiguration
kubernetesVersion: v1.29.4
networking:
  dnsDomain: cluster.local
  podSubnet: 192.168.0.0/16
scheduler: {}
"#;

fn world(version: &str, configuration: Value) -> World {
    let mut world = World::new("a");
    world.spec()["version"] = json!(version);
    world.spec()["kubeadmConfigSpec"]["clusterConfiguration"] = configuration;
    world
}

fn changed(world: &World, stored: &str) -> Option<Value> {
    let text = updated(&world.state(), stored).unwrap()?;
    // What is written is complete: nothing changes again.
    assert_eq!(updated(&world.state(), &text).unwrap(), None, "{text}");
    Some(serde_saphyr::from_str(&text).unwrap())
}

#[test]
fn a_joining_machine_reads_the_fields_of_the_spec_and_other_fields_stay() {
    let world = world(
        "v1.30.0",
        json!({
            "imageRepository": "new.example.org", "featureGates": {"EtcdLearnerMode": true},
            "apiServer": {"certSANs": ["a.example.org"], "extraArgs": [{"name": "v", "value": "2"}]},
            "scheduler": {"extraVolumes": [{"name": "a", "hostPath": "/a", "mountPath": "/b", "readOnly": true}]},
            "etcd": {"local": {"imageTag": "3.5.1", "extraArgs": [{"name": "quota-backend-bytes", "value": "1"}]}},
            "certificateValidityPeriodDays": 10, "encryptionAlgorithm": "ECDSA-P256",
        }),
    );
    let new = changed(&world, STORED).unwrap();
    assert_eq!(
        new,
        json!({
            "apiVersion": "kubeadm.k8s.io/v1beta3", "kind": "ClusterConfiguration", "kubernetesVersion": "v1.30.0",
            "apiServer": {"certSANs": ["a.example.org"], "extraArgs": {"v": "2"}, "timeoutForControlPlane": "4m0s"},
            "certificatesDir": "/etc/kubernetes/pki", "clusterName": "c", "controlPlaneEndpoint": "10.0.0.1:6443",
            "controllerManager": {}, "dns": {},
            "etcd": {"local": {
                "dataDir": "/var/lib/other", "imageTag": "3.5.1", "extraArgs": {"quota-backend-bytes": "1"},
            }},
            "featureGates": {"EtcdLearnerMode": true}, "imageRepository": "new.example.org",
            "networking": {"dnsDomain": "cluster.local", "podSubnet": "192.168.0.0/16"},
            "scheduler": {"extraVolumes": [{"name": "a", "hostPath": "/a", "mountPath": "/b", "readOnly": true}]},
        })
    );
}

#[test]
fn from_1_31_the_format_is_v1beta4() {
    let world = world(
        "v1.31.2",
        json!({
            "controllerManager": {"extraArgs": [{"name": "v", "value": "2"}, {"name": "v", "value": "3"}]},
            "certificateValidityPeriodDays": 10, "encryptionAlgorithm": "ECDSA-P256",
        }),
    );
    let new = changed(&world, STORED).unwrap();
    assert_eq!(new["apiVersion"], "kubeadm.k8s.io/v1beta4");
    assert_eq!(
        new["controllerManager"]["extraArgs"],
        json!([{"name": "v", "value": "2"}, {"name": "v", "value": "3"}])
    );
    assert_eq!(new["apiServer"], json!({}), "the spec has no arguments");
    assert_eq!(new["certificateValidityPeriod"], "240h0m0s");
    assert_eq!(new["encryptionAlgorithm"], "ECDSA-P256");
    assert_eq!(new["featureGates"], json!({"ControlPlaneKubeletLocalMode": true}));
    assert_eq!(new["imageRepository"], "old.example.org");
    assert_eq!(new["etcd"], json!({"local": {"dataDir": "/var/lib/other"}}));
}

#[test]
fn without_a_cluster_configuration_only_the_version_and_the_format_change() {
    let new = changed(&world("v1.31.0", json!({})), STORED).unwrap();
    assert_eq!(
        new["apiServer"]["extraArgs"],
        json!([{"name": "authorization-mode", "value": "Node,RBAC"}])
    );
    assert_eq!(new["apiServer"].get("timeoutForControlPlane"), None);
    assert_eq!(new["kubernetesVersion"], "v1.31.0");
}

#[test]
fn equal_meaning_is_not_written() {
    let same = world("v1.29.4", json!({}));
    assert_eq!(changed(&same, STORED), None);
    let text = "apiVersion: kubeadm.k8s.io/v1beta3\nkind: ClusterConfiguration\nkubernetesVersion: \"v1.30.0\"\n\
                apiServer: {}\nimageRepository: registry.k8s.io\netcd:\n  local:\n    dataDir: \"\"\n";
    assert_eq!(
        changed(&world("v1.30.0", json!({"imageRepository": "registry.k8s.io"})), text),
        None
    );
}

#[test]
fn an_empty_configuration_gets_a_format_and_an_unknown_one_is_refused() {
    let new = changed(&world("v1.35.0", json!({})), "").unwrap();
    assert_eq!(new["apiVersion"], "kubeadm.k8s.io/v1beta4");
    for (text, reason) in [
        ("- a", "an object in YAML"),
        ("a: [", "an object in YAML"),
        ("apiVersion: kubeadm.k8s.io/v1beta9\n", "v1beta9"),
        ("a: b\n", "apiVersion"),
    ] {
        let refused = updated(&world("v1.35.0", json!({})).state(), text).unwrap_err();
        assert!(refused.contains(reason), "{text:?}: {refused}");
    }
    let refused = updated(&world("v1.21.0", json!({})).state(), "").unwrap_err();
    assert!(refused.contains("at least v1.22.0"), "{refused}");
}

#[test]
fn the_endpoints_of_external_etcd_are_written() {
    let external = json!({"endpoints": ["https://a"], "caFile": "/ca", "certFile": "/crt", "keyFile": "/key"});
    let mut world = world("v1.30.0", json!({"etcd": {"external": external}}));
    let refused = changed(&world, STORED).unwrap();
    assert_eq!(refused["etcd"].get("external"), None, "V306: the machines run etcd");
    for config in world.others.iter_mut().filter(|other| other["kind"] == "KubeadmConfig") {
        config["spec"]["clusterConfiguration"]["etcd"] = json!({"external": external});
    }
    let new = changed(&world, STORED).unwrap();
    assert_eq!(new["etcd"]["external"], external);
}

#[test]
fn the_image_of_core_dns_is_written_alone() {
    let world = world("v1.30.0", json!({"dns": {"imageTag": "v1.12.1"}}));
    let text = with_dns(&world.state(), STORED).unwrap().unwrap();
    let new: Value = serde_saphyr::from_str(&text).unwrap();
    assert_eq!(
        (&new["dns"], &new["kubernetesVersion"]),
        (&json!({"imageTag": "v1.12.1"}), &json!("v1.29.4"))
    );
    assert_eq!(with_dns(&world.state(), &text).unwrap(), None);
}
