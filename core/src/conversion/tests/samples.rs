//! Machines of each platform as an installer makes them, and the objects of their clusters.

use serde_json::{Value, json};

use crate::conversion::{Context, Lookup, Role};

/// A machine of a platform with everything that its conversion reads.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    /// The name of the documentation page.
    pub(super) platform: &'static str,
    /// The provider spec.
    pub(super) provider_spec: Value,
    /// The infrastructure cluster.
    pub(super) cluster: Value,
    /// The Infrastructure.
    pub(super) infrastructure: Value,
}

impl Sample {
    /// A context with both cluster objects.
    pub(super) fn context(&self) -> Context<'_> {
        Context {
            infrastructure: Lookup::Found(&self.infrastructure),
            infrastructure_cluster: Lookup::Found(&self.cluster),
            infrastructure_machine: Lookup::Absent,
            role: Some(Role::Worker),
            ..Context::default()
        }
    }

    /// A Machine with a provider spec of this platform.
    pub(super) fn machine(&self, provider_spec: &Value) -> Value {
        json!({
            "apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine",
            "metadata": {"name": "prod-x7k2p-worker-a-abcde", "namespace": "openshift-machine-api", "labels": {
                "machine.openshift.io/cluster-api-cluster": "prod-x7k2p",
                "machine.openshift.io/cluster-api-machine-role": "worker",
                "machine.openshift.io/cluster-api-machine-type": "worker",
                "machine.openshift.io/cluster-api-machineset": "prod-x7k2p-worker-a",
            }},
            "spec": {"lifecycleHooks": {}, "metadata": {}, "providerSpec": {"value": provider_spec}},
        })
    }

    /// A MachineSet with a provider spec of this platform.
    pub(super) fn set(&self, provider_spec: &Value) -> Value {
        let labels = json!({
            "machine.openshift.io/cluster-api-cluster": "prod-x7k2p",
            "machine.openshift.io/cluster-api-machine-role": "worker",
            "machine.openshift.io/cluster-api-machine-type": "worker",
            "machine.openshift.io/cluster-api-machineset": "prod-x7k2p-worker-a",
        });
        json!({
            "apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineSet",
            "metadata": {"name": "prod-x7k2p-worker-a", "namespace": "openshift-machine-api", "labels": {
                "machine.openshift.io/cluster-api-cluster": "prod-x7k2p"}},
            "spec": {"replicas": 3, "selector": {"matchLabels": {
                    "machine.openshift.io/cluster-api-cluster": "prod-x7k2p",
                    "machine.openshift.io/cluster-api-machineset": "prod-x7k2p-worker-a"}},
                "template": {"metadata": {"labels": labels}, "spec": {"lifecycleHooks": {},
                    "metadata": {}, "providerSpec": {"value": provider_spec}}}},
        })
    }
}

fn infrastructure(platform: &str, status: &Value) -> Value {
    json!({"apiVersion": "config.openshift.io/v1", "kind": "Infrastructure", "metadata": {"name": "cluster"},
        "status": {"infrastructureName": "prod-x7k2p", "platformStatus": {platform: status}}})
}

fn cluster(kind: &str, spec: Value) -> Value {
    json!({"kind": kind, "metadata": {"name": "prod-x7k2p"}, "spec": spec})
}

/// The machines of all platforms.
pub(super) fn samples() -> Vec<Sample> {
    vec![
        aws(),
        azure(),
        bare_metal(),
        gcp(),
        ibm_vpc(),
        nutanix(),
        openstack(),
        power_vs(),
        vsphere(),
    ]
}

pub(super) fn aws() -> Sample {
    Sample {
        platform: "aws",
        // The benchmark reads the same file.
        provider_spec: serde_json::from_str(include_str!("aws.json")).unwrap(),
        cluster: cluster("AWSCluster", json!({"region": "us-east-1"})),
        infrastructure: infrastructure("aws", &json!({"region": "us-east-1"})),
    }
}

fn azure() -> Sample {
    Sample {
        platform: "azure",
        provider_spec: json!({
            "apiVersion": "machine.openshift.io/v1beta1", "kind": "AzureMachineProviderSpec",
            "acceleratedNetworking": true,
            "credentialsSecret": {"name": "azure-cloud-credentials", "namespace": "openshift-machine-api"},
            "diagnostics": {}, "image": {"offer": "", "publisher": "", "resourceID":
                "/resourceGroups/prod-x7k2p-rg/providers/Microsoft.Compute/galleries/g/images/i/versions/1.0",
                "sku": "", "version": ""},
            "location": "centralus", "managedIdentity": "prod-x7k2p-identity", "metadata": {"creationTimestamp": null},
            "networkResourceGroup": "prod-x7k2p-rg",
            "osDisk": {"diskSettings": {}, "diskSizeGB": 128, "managedDisk": {"securityProfile":
                {"diskEncryptionSet": {}}, "storageAccountType": "Premium_LRS"}, "osType": "Linux"},
            "publicIP": false, "publicLoadBalancer": "prod-x7k2p", "resourceGroup": "Prod-x7k2p-RG",
            "subnet": "prod-x7k2p-worker-subnet", "userDataSecret": {"name": "worker-user-data"},
            "vmSize": "Standard_D4s_v3", "vnet": "prod-x7k2p-vnet", "zone": "1",
        }),
        cluster: cluster(
            "AzureCluster",
            json!({"location": "centralus", "resourceGroup": "prod-x7k2p-rg",
            "subscriptionID": "11111111-2222-3333-4444-555555555555",
            "networkSpec": {"vnet": {"name": "prod-x7k2p-vnet", "resourceGroup": "prod-x7k2p-rg"},
                "nodeOutboundLB": {"name": "prod-x7k2p"}, "apiServerLB": {"name": "prod-x7k2p", "type": "Public"}}}),
        ),
        infrastructure: infrastructure("azure", &json!({"resourceGroupName": "prod-x7k2p-rg"})),
    }
}

fn bare_metal() -> Sample {
    Sample {
        platform: "bare-metal",
        provider_spec: json!({
            "apiVersion": "baremetal.cluster.k8s.io/v1alpha1", "kind": "BareMetalMachineProviderSpec",
            "customDeploy": {"method": "install_coreos"}, "hostSelector": {}, "image": {"checksum": "", "url": ""},
            "metadata": {"creationTimestamp": null}, "userData": {"name": "worker-user-data"},
        }),
        cluster: cluster("Metal3Cluster", json!({})),
        infrastructure: infrastructure("baremetal", &json!({})),
    }
}

fn gcp() -> Sample {
    Sample {
        platform: "gcp",
        provider_spec: json!({
            "apiVersion": "machine.openshift.io/v1beta1", "kind": "GCPMachineProviderSpec",
            "canIPForward": false, "credentialsSecret": {"name": "gcp-cloud-credentials"}, "deletionProtection": false,
            "disks": [{"autoDelete": true, "boot": true, "image": "projects/rhcos-cloud/global/images/rhcos-1",
                "labels": null, "sizeGb": 128, "type": "pd-ssd"}],
            "machineType": "n2-standard-4", "metadata": {"creationTimestamp": null},
            "networkInterfaces": [{"network": "prod-x7k2p-network", "subnetwork": "prod-x7k2p-worker-subnet"}],
            "projectID": "my-project", "region": "us-central1",
            "serviceAccounts": [{"email": "w@my-project.iam.gserviceaccount.com",
                "scopes": ["https://www.googleapis.com/auth/cloud-platform"]}],
            "shieldedInstanceConfig": {}, "tags": ["prod-x7k2p-worker"],
            "userDataSecret": {"name": "worker-user-data"}, "zone": "us-central1-a",
        }),
        cluster: cluster(
            "GCPCluster",
            json!({"project": "my-project", "region": "us-central1", "network": {"name": "prod-x7k2p-network"}}),
        ),
        infrastructure: infrastructure("gcp", &json!({"region": "us-central1", "projectID": "my-project"})),
    }
}

fn ibm_vpc() -> Sample {
    Sample {
        platform: "ibm-vpc",
        provider_spec: json!({
            "apiVersion": "ibmcloudproviderconfig.openshift.io/v1beta1", "kind": "IBMCloudMachineProviderSpec",
            "credentialsSecret": {"name": "ibmcloud-credentials"}, "image": "prod-x7k2p-rhcos",
            "metadata": {"creationTimestamp": null},
            "primaryNetworkInterface": {"securityGroups": ["prod-x7k2p-sg-cluster-wide"],
                "subnet": "prod-x7k2p-subnet-compute-us-south-1"},
            "profile": "bx2-4x16", "region": "us-south", "resourceGroup": "prod-x7k2p", "vpc": "prod-x7k2p-vpc",
            "userDataSecret": {"name": "worker-user-data"}, "zone": "us-south-1",
        }),
        cluster: cluster(
            "IBMVPCCluster",
            json!({"region": "us-south", "resourceGroup": "prod-x7k2p", "vpc": "prod-x7k2p-vpc", "zone": "us-south-1"}),
        ),
        infrastructure: infrastructure("ibmcloud", &json!({"location": "us-south"})),
    }
}

fn nutanix() -> Sample {
    Sample {
        platform: "nutanix",
        provider_spec: json!({
            "apiVersion": "machine.openshift.io/v1", "kind": "NutanixMachineProviderConfig", "bootType": "",
            "categories": [{"key": "kubernetes-io-cluster-prod-x7k2p", "value": "owned"}],
            "cluster": {"type": "uuid", "uuid": "0005b0f1-8f43-a0f2-02b7-3cecef193712"},
            "credentialsSecret": {"name": "nutanix-credentials"}, "dataDisks": null, "failureDomain": null,
            "gpus": null, "image": {"name": "prod-x7k2p-rhcos", "type": "name"}, "memorySize": "16Gi",
            "metadata": {"creationTimestamp": null}, "project": {"type": ""},
            "subnets": [{"type": "uuid", "uuid": "c7938dc6-7659-453e-a688-e26020c68e43"}],
            "systemDiskSize": "120Gi", "userDataSecret": {"name": "worker-user-data"}, "vcpuSockets": 4,
            "vcpusPerSocket": 1,
        }),
        cluster: cluster("NutanixCluster", json!({})),
        infrastructure: infrastructure("nutanix", &json!({})),
    }
}

fn openstack() -> Sample {
    Sample {
        platform: "openstack",
        provider_spec: json!({
            "apiVersion": "machine.openshift.io/v1alpha1", "kind": "OpenstackProviderSpec",
            "cloudName": "openstack", "cloudsSecret": {"name": "openstack-cloud-credentials",
                "namespace": "openshift-machine-api"},
            "flavor": "m1.xlarge", "image": "prod-x7k2p-rhcos", "metadata": {"creationTimestamp": null},
            "networks": [{"filter": {}, "subnets": [{"filter": {"tags": "openshiftClusterID=prod-x7k2p"}}]}],
            "securityGroups": [{"filter": {}, "name": "prod-x7k2p-worker"}],
            "serverGroupName": "prod-x7k2p-worker",
            "serverMetadata": {"Name": "prod-x7k2p-worker", "openshiftClusterID": "prod-x7k2p"},
            "tags": ["openshiftClusterID=prod-x7k2p"], "trunk": true,
            "userDataSecret": {"name": "worker-user-data"},
        }),
        cluster: cluster("OpenStackCluster", json!({})),
        infrastructure: infrastructure("openstack", &json!({})),
    }
}

fn power_vs() -> Sample {
    Sample {
        platform: "power-vs",
        provider_spec: json!({
            "apiVersion": "machine.openshift.io/v1", "kind": "PowerVSMachineProviderConfig",
            "credentialsSecret": {"name": "powervs-credentials"}, "image": {"name": "rhcos-prod-x7k2p", "type": "Name"},
            "keyPairName": "prod-x7k2p-key", "memoryGiB": 32, "metadata": {"creationTimestamp": null},
            "network": {"regex": "^DHCPSERVER.*prod-x7k2p.*_Private$", "type": "RegEx"}, "processorType": "Shared",
            "processors": "0.5", "serviceInstance": {"id": "e449d86e-c3a0-4c07-959e-8557fdf55482", "type": "ID"},
            "systemType": "s1022", "userDataSecret": {"name": "worker-user-data"},
        }),
        cluster: cluster("IBMPowerVSCluster", json!({})),
        infrastructure: infrastructure("powervs", &json!({"region": "dal"})),
    }
}

fn vsphere() -> Sample {
    Sample {
        platform: "vsphere",
        provider_spec: json!({
            "apiVersion": "machine.openshift.io/v1beta1", "kind": "VSphereMachineProviderSpec",
            "credentialsSecret": {"name": "vsphere-cloud-credentials"}, "diskGiB": 120, "memoryMiB": 16384,
            "metadata": {"creationTimestamp": null}, "network": {"devices": [{"networkName": "VM Network"}]},
            "numCPUs": 4, "numCoresPerSocket": 4, "snapshot": "", "template": "prod-x7k2p-rhcos",
            "userDataSecret": {"name": "worker-user-data"},
            "workspace": {"datacenter": "dc1", "datastore": "/dc1/datastore/ds", "folder": "/dc1/vm/prod-x7k2p",
                "resourcePool": "/dc1/host/c1/Resources", "server": "vc.example.com"},
        }),
        cluster: cluster("VSphereCluster", json!({"server": "vc.example.com"})),
        infrastructure: infrastructure("vsphere", &json!({})),
    }
}
