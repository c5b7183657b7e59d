//! `KubeadmConfig`, `bootstrap.cluster.x-k8s.io/v1beta2`: how kubeadm makes a node. A
//! KubeadmControlPlane contains the same spec.

use std::collections::BTreeMap;

use crate::api::meta::ObjectMeta;
use crate::api::wire::wire;

/// The kind.
pub const KIND: &str = "KubeadmConfig";
/// The lower-case plural, as it is in a URL.
pub const PLURAL: &str = "kubeadmconfigs";
/// The format of the user data for Ignition.
pub const IGNITION: &str = "ignition";
/// The format of the user data for cloud-init, which is the default.
pub const CLOUD_CONFIG: &str = "cloud-config";

wire! {
    /// A KubeadmConfig.
    pub struct KubeadmConfig {
        /// Group and version.
        pub api_version: String,
        /// Kind.
        pub kind: String,
        /// Standard metadata.
        pub metadata: ObjectMeta,
        /// The configuration.
        pub spec: KubeadmConfigSpec,
    }

    /// The configuration of kubeadm, and what runs around it on a new machine.
    pub struct KubeadmConfigSpec {
        /// The configuration of the whole cluster.
        pub cluster_configuration: ClusterConfiguration,
        /// The options of `kubeadm init`.
        pub init_configuration: InitConfiguration,
        /// The options of `kubeadm join`.
        pub join_configuration: JoinConfiguration,
        /// Files to write.
        pub files: Vec<File>,
        /// Disks to partition and to format.
        pub disk_setup: DiskSetup,
        /// Mount points, each as the columns of fstab.
        pub mounts: Vec<Vec<String>>,
        /// Commands at the start of the boot.
        pub boot_commands: Vec<String>,
        /// Commands before kubeadm.
        pub pre_kubeadm_commands: Vec<String>,
        /// Commands after kubeadm.
        pub post_kubeadm_commands: Vec<String>,
        /// Users to add.
        pub users: Vec<User>,
        /// Time servers.
        pub ntp: Ntp,
        /// `cloud-config` or `ignition`.
        pub format: String,
        /// The log level of kubeadm.
        pub verbosity: Option<i32>,
        /// Options of Ignition.
        pub ignition: Ignition,
    }

    /// The configuration of the whole cluster.
    pub struct ClusterConfiguration {
        /// The etcd of the cluster.
        pub etcd: Etcd,
        /// The address of the API server, as `host:port`.
        pub control_plane_endpoint: String,
        /// Options of the API server.
        pub api_server: Component,
        /// Options of the controller manager.
        pub controller_manager: Component,
        /// Options of the scheduler.
        pub scheduler: Component,
        /// The image of CoreDNS.
        pub dns: Image,
        /// The folder of the certificates.
        pub certificates_dir: String,
        /// The registry of the images.
        pub image_repository: String,
        /// Feature gates of kubeadm.
        pub feature_gates: BTreeMap<String, bool>,
        /// How long certificates are valid, in days; 0 for the default.
        pub certificate_validity_period_days: i32,
        /// How long certificates of authorities are valid, in days; 0 for the default.
        pub ca_certificate_validity_period_days: i32,
        /// The algorithm of the keys.
        pub encryption_algorithm: String,
    }

    /// Options of a component of the control plane.
    pub struct Component {
        /// Arguments.
        pub extra_args: Vec<Arg>,
        /// Additional names in the certificate.
        #[serde(rename = "certSANs")]
        pub cert_sans: Vec<String>,
    }

    /// An argument of a component.
    pub struct Arg {
        /// The name, without dashes.
        pub name: String,
        /// The value.
        pub value: Option<String>,
    }

    /// The etcd of the cluster: at most one of the two is given.
    pub struct Etcd {
        /// Members on the control plane machines.
        pub local: LocalEtcd,
        /// An etcd that the cluster does not manage.
        pub external: ExternalEtcd,
    }

    /// Etcd members on the control plane machines.
    pub struct LocalEtcd {
        /// The registry of the image.
        pub image_repository: String,
        /// The tag of the image.
        pub image_tag: String,
        /// The folder of the data.
        pub data_dir: String,
        /// Arguments.
        pub extra_args: Vec<Arg>,
    }

    /// An etcd that the cluster does not manage.
    pub struct ExternalEtcd {
        /// The addresses of the members.
        pub endpoints: Vec<String>,
        /// The file of the certificate of the authority.
        pub ca_file: String,
        /// The file of the client certificate.
        pub cert_file: String,
        /// The file of the client key.
        pub key_file: String,
    }

    /// An image.
    pub struct Image {
        /// The registry of the image.
        pub image_repository: String,
        /// The tag of the image.
        pub image_tag: String,
    }

    /// The options of `kubeadm init`.
    pub struct InitConfiguration {
        /// Tokens with which machines join.
        pub bootstrap_tokens: Vec<BootstrapToken>,
        /// The node to register.
        pub node_registration: NodeRegistration,
        /// The address of the API server on this machine.
        #[serde(rename = "localAPIEndpoint")]
        pub local_api_endpoint: ApiEndpoint,
        /// Phases to leave out.
        pub skip_phases: Vec<String>,
        /// Timeouts.
        pub timeouts: Timeouts,
    }

    /// A token with which a machine joins.
    pub struct BootstrapToken {
        /// The token: its id, a dot, and its secret.
        pub token: String,
        /// How long the token is valid.
        pub ttl_seconds: Option<i32>,
    }

    /// The options of `kubeadm join`.
    pub struct JoinConfiguration {
        /// The node to register.
        pub node_registration: NodeRegistration,
        /// The file of the certificate of the authority.
        pub ca_cert_path: String,
        /// How the machine finds the cluster.
        pub discovery: Discovery,
        /// The options of a control plane machine.
        pub control_plane: Option<JoinControlPlane>,
        /// Phases to leave out.
        pub skip_phases: Vec<String>,
        /// Timeouts.
        pub timeouts: Timeouts,
    }

    /// The options of a control plane machine that joins.
    pub struct JoinControlPlane {
        /// The address of the API server on this machine.
        #[serde(rename = "localAPIEndpoint")]
        pub local_api_endpoint: ApiEndpoint,
    }

    /// An address of an API server.
    pub struct ApiEndpoint {
        /// The IP address.
        pub advertise_address: String,
        /// The port; 0 for the default.
        pub bind_port: i32,
    }

    /// The node to register.
    pub struct NodeRegistration {
        /// The name of the node.
        pub name: String,
        /// The socket of the container runtime.
        pub cri_socket: String,
        /// The taints of the node. An empty list means no taints; an absent list means the default.
        pub taints: Option<Vec<serde_json::Value>>,
        /// Arguments of the kubelet.
        pub kubelet_extra_args: Vec<Arg>,
        /// When images are pulled.
        pub image_pull_policy: String,
    }

    /// Timeouts, in seconds.
    pub struct Timeouts {
        /// How long kubeadm waits for the components of the control plane.
        pub control_plane_component_health_check_seconds: Option<i32>,
        /// How long kubeadm waits for a healthy kubelet.
        pub kubelet_health_check_seconds: Option<i32>,
        /// How long kubeadm waits for a request to the API server.
        #[serde(rename = "kubernetesAPICallSeconds")]
        pub kubernetes_api_call_seconds: Option<i32>,
        /// How long kubeadm waits for a request to etcd.
        #[serde(rename = "etcdAPICallSeconds")]
        pub etcd_api_call_seconds: Option<i32>,
        /// How long kubeadm waits for the TLS bootstrap of the kubelet.
        pub tls_bootstrap_seconds: Option<i32>,
        /// How long a joining machine waits until it finds the cluster.
        pub discovery_seconds: Option<i32>,
    }

    /// How a machine finds the cluster that it joins.
    pub struct Discovery {
        /// With a kubeconfig file.
        pub file: FileDiscovery,
    }

    /// Discovery with a kubeconfig file.
    pub struct FileDiscovery {
        /// The file.
        pub kube_config_path: String,
        /// The content of the file.
        pub kube_config: KubeConfig,
    }

    /// The content of a kubeconfig file.
    pub struct KubeConfig {
        /// The user.
        pub user: KubeConfigUser,
    }

    /// The user of a kubeconfig file: one of the two is given.
    pub struct KubeConfigUser {
        /// An authentication provider.
        pub auth_provider: KubeConfigAuthProvider,
        /// A command that returns a credential.
        pub exec: KubeConfigExec,
    }

    /// An authentication provider.
    pub struct KubeConfigAuthProvider {
        /// The name of the provider.
        pub name: String,
        /// The configuration of the provider.
        pub config: BTreeMap<String, String>,
    }

    /// A command that returns a credential.
    pub struct KubeConfigExec {
        /// The command.
        pub command: String,
        /// The version of the API of the command.
        pub api_version: String,
    }

    /// A file to write.
    pub struct File {
        /// The path.
        pub path: String,
        /// `base64`, `gzip` or `gzip+base64`.
        pub encoding: String,
        /// The content.
        pub content: String,
        /// The Secret that contains the content.
        pub content_from: SecretSource,
    }

    /// A source of a value.
    pub struct SecretSource {
        /// A key of a Secret.
        pub secret: SecretKey,
    }

    /// A key of a Secret.
    pub struct SecretKey {
        /// The name of the Secret.
        pub name: String,
        /// The key.
        pub key: String,
    }

    /// A user to add.
    pub struct User {
        /// The name.
        pub name: String,
        /// Whether the user is inactive.
        pub inactive: Option<bool>,
        /// The hash of the password.
        pub passwd: String,
        /// The Secret that contains the hash of the password.
        pub passwd_from: SecretSource,
    }

    /// Time servers.
    pub struct Ntp {
        /// The servers.
        pub servers: Vec<String>,
        /// Whether time is synchronized.
        pub enabled: Option<bool>,
    }

    /// Disks to partition and to format.
    pub struct DiskSetup {
        /// Partition tables.
        pub partitions: Vec<Partition>,
        /// File systems.
        pub filesystems: Vec<Filesystem>,
    }

    /// A partition table.
    pub struct Partition {
        /// The device.
        pub device: String,
        /// Whether the device gets one partition.
        pub layout: Option<bool>,
        /// `mbr` or `gpt`.
        pub table_type: String,
        /// The partitions.
        pub disk_layout: Vec<PartitionSpec>,
    }

    /// A partition.
    pub struct PartitionSpec {
        /// The part of the disk, in percent.
        pub percentage: i32,
        /// The type of the partition.
        pub partition_type: String,
    }

    /// A file system.
    pub struct Filesystem {
        /// The device.
        pub device: String,
        /// The type of the file system.
        pub filesystem: String,
        /// The partition.
        pub partition: String,
        /// The file system to replace.
        #[serde(rename = "replaceFS")]
        pub replace_fs: String,
    }

    /// Options of Ignition.
    pub struct Ignition {
        /// Options of the Container Linux Config.
        pub container_linux_config: ContainerLinuxConfig,
    }

    /// Options of the Container Linux Config.
    pub struct ContainerLinuxConfig {
        /// Additional configuration, as YAML.
        pub additional_config: String,
        /// Whether warnings are errors.
        pub strict: Option<bool>,
    }
}

impl ClusterConfiguration {
    /// Whether the cluster uses an etcd that it does not manage.
    pub fn has_external_etcd(&self) -> bool {
        self.etcd.external != ExternalEtcd::default()
    }
}
