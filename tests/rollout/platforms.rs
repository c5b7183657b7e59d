//! The control plane machines of each platform, as an installer creates them.

use serde_json::{Value, json};

use crate::world::read;

/// The name of the cluster in all fixtures.
pub const CLUSTER: &str = "prod-x7k2p";

/// A platform.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Platform {
    Aws,
    Azure,
    Gcp,
    VSphere,
    Nutanix,
    OpenStack,
    PowerVs,
}

impl Platform {
    /// The name in the Infrastructure object.
    pub fn name(self) -> &'static str {
        match self {
            Self::Aws => "AWS",
            Self::Azure => "Azure",
            Self::Gcp => "GCP",
            Self::VSphere => "VSphere",
            Self::Nutanix => "Nutanix",
            Self::OpenStack => "OpenStack",
            Self::PowerVs => "PowerVS",
        }
    }

    /// The provider spec field with the size of a machine.
    pub fn size_field(self) -> &'static str {
        match self {
            Self::Aws => "instanceType",
            Self::Azure => "vmSize",
            Self::Gcp => "machineType",
            Self::VSphere => "memoryMiB",
            Self::Nutanix => "vcpuSockets",
            Self::OpenStack => "flavor",
            Self::PowerVs => "memoryGiB",
        }
    }

    /// A larger size than that of the fixture.
    pub fn larger(self) -> Value {
        match self {
            Self::Aws => json!("m6i.2xlarge"),
            Self::Azure => json!("Standard_D16s_v3"),
            Self::Gcp => json!("n2-standard-8"),
            Self::VSphere => json!(32768),
            Self::Nutanix => json!(16),
            Self::OpenStack => json!("m1.2xlarge"),
            Self::PowerVs => json!(64),
        }
    }

    /// The set of three machines, without the selector and labels of another platform.
    pub fn set(self) -> anyhow::Result<Value> {
        let mut set: Value = serde_saphyr::from_str(&read("tests/fixtures/aws/set.yaml")?)?;
        if self != Self::Aws {
            let template = &mut set["spec"]["template"]["machines_v1beta1_machine_openshift_io"];
            template["spec"]["providerSpec"]["value"] = self.provider_spec();
            template["failureDomains"] = self.failure_domains();
        }
        Ok(set)
    }

    /// The Infrastructure object.
    pub fn infrastructure(self) -> Value {
        let (spec, status) = match self {
            Self::Aws => (json!({"aws": {}}), json!({"aws": {"region": "us-east-1"}})),
            Self::Azure => (
                json!({"azure": {}}),
                json!({"azure": {"resourceGroupName": format!("{CLUSTER}-rg"), "cloudName": "AzurePublicCloud"}}),
            ),
            Self::Gcp => (
                json!({"gcp": {}}),
                json!({"gcp": {"projectID": "p", "region": "us-central1"}}),
            ),
            Self::VSphere => (json!({"vsphere": vsphere_spec()}), json!({"vsphere": {}})),
            Self::Nutanix => (json!({"nutanix": nutanix_spec()}), json!({"nutanix": {}})),
            Self::OpenStack => (
                json!({"openstack": {}}),
                json!({"openstack": {"cloudName": "openstack"}}),
            ),
            Self::PowerVs => (
                json!({"powervs": {}}),
                json!({"powervs": {"region": "lon", "zone": "lon04"}}),
            ),
        };
        let with_type = |mut value: Value| {
            value["type"] = json!(self.name());
            value
        };
        json!({
            "apiVersion": "config.openshift.io/v1",
            "kind": "Infrastructure",
            "metadata": {"name": "cluster"},
            "spec": {"cloudConfig": {"name": ""}, "platformSpec": with_type(spec)},
            "status": {
                "apiServerInternalURI": "https://api-int.prod.example.com:6443",
                "apiServerURL": "https://api.prod.example.com:6443",
                "etcdDiscoveryDomain": "",
                "controlPlaneTopology": "HighlyAvailable",
                "infrastructureTopology": "HighlyAvailable",
                "infrastructureName": CLUSTER,
                "platform": self.name(),
                "platformStatus": with_type(status),
            },
        })
    }

    fn failure_domains(self) -> Value {
        match self {
            Self::Aws => Value::Null,
            Self::Azure => json!({"platform": "Azure", "azure": [{"zone": "1"}, {"zone": "2"}, {"zone": "3"}]}),
            Self::Gcp => json!({"platform": "GCP", "gcp": [
                {"zone": "us-central1-a"}, {"zone": "us-central1-b"}, {"zone": "us-central1-c"}]}),
            Self::VSphere => {
                json!({"platform": "VSphere", "vsphere": [{"name": "fd-0"}, {"name": "fd-1"}, {"name": "fd-2"}]})
            }
            Self::Nutanix => {
                json!({"platform": "Nutanix", "nutanix": [{"name": "fd-0"}, {"name": "fd-1"}, {"name": "fd-2"}]})
            }
            Self::OpenStack => json!({"platform": "OpenStack", "openstack": [
                {"availabilityZone": "nova-0"}, {"availabilityZone": "nova-1"}, {"availabilityZone": "nova-2"}]}),
            Self::PowerVs => json!({"platform": ""}),
        }
    }

    fn provider_spec(self) -> Value {
        let mut value = match self {
            Self::Aws => Value::Null,
            Self::Azure => azure(),
            Self::Gcp => gcp(),
            Self::VSphere => vsphere(),
            Self::Nutanix => nutanix(),
            Self::OpenStack => openstack(),
            Self::PowerVs => powervs(),
        };
        value["metadata"] = json!({"creationTimestamp": null});
        value["userDataSecret"] = json!({"name": "master-user-data"});
        value
    }
}

fn azure() -> Value {
    json!({
        "apiVersion": "machine.openshift.io/v1beta1", "kind": "AzureMachineProviderSpec",
        "acceleratedNetworking": true,
        "credentialsSecret": {"name": "azure-cloud-credentials", "namespace": "openshift-machine-api"},
        "diagnostics": {},
        "image": {"offer": "", "publisher": "", "sku": "", "version": "",
            "resourceID": "/resourceGroups/rg/providers/Microsoft.Compute/galleries/g/images/i/versions/latest"},
        "internalLoadBalancer": "", "location": "eastus", "managedIdentity": format!("{CLUSTER}-identity"),
        "networkResourceGroup": format!("{CLUSTER}-rg"), "resourceGroup": format!("{CLUSTER}-rg"),
        "osDisk": {"diskSettings": {}, "diskSizeGB": 1024, "osType": "Linux",
            "managedDisk": {"securityProfile": {"diskEncryptionSet": {}}, "storageAccountType": "Premium_LRS"}},
        "publicIP": false, "publicLoadBalancer": CLUSTER, "vmSize": "Standard_D8s_v3", "zone": "",
        "subnet": format!("{CLUSTER}-master-subnet"), "vnet": format!("{CLUSTER}-vnet"),
    })
}

fn gcp() -> Value {
    json!({
        "apiVersion": "machine.openshift.io/v1beta1", "kind": "GCPMachineProviderSpec",
        "canIPForward": false, "deletionProtection": false,
        "credentialsSecret": {"name": "gcp-cloud-credentials"},
        "disks": [{"autoDelete": true, "boot": true, "image": "projects/x/global/images/i", "labels": null,
            "sizeGb": 128, "type": "pd-ssd"}],
        "machineType": "n2-standard-4", "projectID": "p", "region": "us-central1", "zone": "",
        "networkInterfaces": [{"network": format!("{CLUSTER}-network"), "subnetwork": format!("{CLUSTER}-master-subnet")}],
        "serviceAccounts": [{"email": "a@b", "scopes": ["https://www.googleapis.com/auth/cloud-platform"]}],
        "shieldedInstanceConfig": {}, "tags": [format!("{CLUSTER}-master")], "targetPools": [format!("{CLUSTER}-api")],
    })
}

fn vsphere() -> Value {
    json!({
        "apiVersion": "machine.openshift.io/v1beta1", "kind": "VSphereMachineProviderSpec",
        "credentialsSecret": {"name": "vsphere-cloud-credentials"},
        "diskGiB": 120, "memoryMiB": 16384, "numCPUs": 4, "numCoresPerSocket": 4, "snapshot": "",
        "network": {"devices": [{"networkName": "VM Network"}]},
        "template": format!("{CLUSTER}-rhcos"), "workspace": {},
    })
}

/// Three failure domains in one vCenter.
fn vsphere_spec() -> Value {
    let domain = |index: u32| {
        json!({
            "name": format!("fd-{index}"), "region": "r", "zone": format!("z{index}"), "server": "vc.example.com",
            "topology": {
                "computeCluster": format!("/dc1/host/c{index}"), "datacenter": "dc1", "datastore": "/dc1/datastore/ds",
                "networks": ["VM Network"], "folder": format!("/dc1/vm/{CLUSTER}"),
                "resourcePool": format!("/dc1/host/c{index}/Resources"), "template": format!("/dc1/vm/{CLUSTER}-rhcos"),
            },
        })
    };
    json!({"vcenters": [{"server": "vc.example.com", "datacenters": ["dc1"]}], "failureDomains": [domain(0), domain(1), domain(2)]})
}

fn nutanix() -> Value {
    json!({
        "apiVersion": "machine.openshift.io/v1", "kind": "NutanixMachineProviderConfig",
        "bootType": "", "categories": [{"key": "k", "value": "v"}], "dataDisks": null, "failureDomain": null, "gpus": null,
        "cluster": {"type": "uuid", "uuid": "0005b0f1-8f43-a0f2-02b7-3cecef193710"},
        "credentialsSecret": {"name": "nutanix-credentials"},
        "image": {"name": "rhcos", "type": "name"}, "memorySize": "16Gi", "project": {"type": ""},
        "subnets": [{"type": "uuid", "uuid": "c7938dc6-7659-453e-a688-e26020c68e40"}],
        "systemDiskSize": "120Gi", "vcpuSockets": 8, "vcpusPerSocket": 1,
    })
}

/// Three failure domains, each with a cluster and a subnet.
fn nutanix_spec() -> Value {
    let domain = |index: u32| {
        json!({
            "name": format!("fd-{index}"),
            "cluster": {"type": "UUID", "uuid": format!("0005b0f1-8f43-a0f2-02b7-3cecef19371{index}")},
            "subnets": [{"type": "UUID", "uuid": format!("c7938dc6-7659-453e-a688-e26020c68e4{index}")}],
        })
    };
    json!({
        "prismCentral": {"address": "pc.example.com", "port": 9440},
        "prismElements": [{"name": "pe", "endpoint": {"address": "pe.example.com", "port": 9440}}],
        "failureDomains": [domain(0), domain(1), domain(2)],
    })
}

fn openstack() -> Value {
    json!({
        "apiVersion": "machine.openshift.io/v1alpha1", "kind": "OpenstackProviderSpec",
        "cloudName": "openstack", "cloudsSecret": {"name": "openstack-cloud-credentials", "namespace": "openshift-machine-api"},
        "flavor": "m1.xlarge", "image": format!("{CLUSTER}-rhcos"), "serverGroupName": format!("{CLUSTER}-master"),
        "networks": [{"filter": {}, "subnets": [{"filter": {"name": format!("{CLUSTER}-nodes")}}]}],
        "securityGroups": [{"filter": {}, "name": format!("{CLUSTER}-master")}],
        "serverMetadata": {"Name": format!("{CLUSTER}-master"), "openshiftClusterID": CLUSTER},
        "tags": [format!("openshiftClusterID={CLUSTER}")], "trunk": true,
    })
}

fn powervs() -> Value {
    json!({
        "apiVersion": "machine.openshift.io/v1", "kind": "PowerVSMachineProviderConfig",
        "credentialsSecret": {"name": "powervs-credentials"},
        "image": {"name": "rhcos", "type": "Name"}, "keyPairName": format!("{CLUSTER}-key"),
        "network": {"regex": "^DHCPSERVER", "type": "RegEx"}, "serviceInstance": {"id": "abc", "type": "ID"},
        "memoryGiB": 32, "processorType": "Shared", "processors": "0.5", "systemType": "s922",
    })
}
