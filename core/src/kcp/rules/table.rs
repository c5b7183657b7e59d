//! The rules of this module as data: id, field, and demand.

use super::WRITES;
use crate::api::controlplane_cluster_x_k8s_io::{kubeadm_control_plane, kubeadm_control_plane_template};
use crate::kcp::spec::{TYPE_RULE, VERSION_RULE};
use crate::model::{FieldPath, Operation, RuleInfo, Violation, ViolationKind};

/// A rule.
pub(super) struct Rule {
    id: &'static str,
    kind: &'static str,
    path: &'static str,
    demand: &'static str,
    operations: &'static [Operation],
    /// Whether an offline check judges the rule too.
    is_offline: bool,
}

impl Rule {
    const fn new(id: &'static str, path: &'static str, demand: &'static str) -> Self {
        Self {
            id,
            kind: kubeadm_control_plane::KIND,
            path,
            demand,
            operations: WRITES,
            is_offline: true,
        }
    }

    /// The rule needs a cluster.
    const fn on_cluster(mut self) -> Self {
        self.is_offline = false;
        self
    }

    const fn on_update(mut self) -> Self {
        self.operations = &[Operation::Update];
        self
    }

    const fn of_template(mut self, operations: &'static [Operation]) -> Self {
        self.kind = kubeadm_control_plane_template::KIND;
        self.operations = operations;
        self
    }

    /// The id.
    pub(super) const fn id(&self) -> &'static str {
        self.id
    }

    /// A violation that states the demand of the rule.
    pub(super) fn violation(&self, path: impl Into<FieldPath>, kind: ViolationKind) -> Violation {
        self.because(path, kind, self.demand)
    }

    /// A violation that states a demand of its own.
    pub(super) fn because(
        &self,
        path: impl Into<FieldPath>,
        kind: ViolationKind,
        allowed: impl Into<String>,
    ) -> Violation {
        Violation::new(self.id, path, kind, allowed)
    }

    /// The rule as `capstan rules` lists it.
    pub(super) fn info(&self) -> RuleInfo {
        RuleInfo {
            enforced_by: if self.is_offline {
                vec!["webhook", "offline"]
            } else {
                vec!["webhook"]
            },
            ..RuleInfo::webhook(self.id, self.kind, self.path, self.operations, self.demand)
        }
    }
}

macro_rules! rules {
    ($($name:ident = $rule:expr;)*) => {
        $(pub(super) const $name: Rule = $rule;)*
        /// Every rule.
        pub(super) const ALL: &[Rule] = &[$($name),*];
    };
}

rules! {
    API_VERSION = Rule::new(VERSION_RULE, "apiVersion", "must be v1beta2 or v1beta1");
    TYPES = Rule::new(TYPE_RULE, "", "must have the types that the API defines");
    REPLICAS_REQUIRED = Rule::new("kcp-replicas-required", "spec.replicas", "must be set");
    REPLICAS_POSITIVE = Rule::new("kcp-replicas-positive", "spec.replicas", "must be 1 or more");
    REPLICAS_ODD = Rule::new(
        "kcp-replicas-odd", "spec.replicas", "must be odd while etcd runs on the control plane machines");
    INFRASTRUCTURE_VERSION = Rule::new(
        "kcp-infrastructure-version", "spec.machineTemplate.spec.infrastructureRef",
        "warns of a kind of infrastructure for which no CRD names a version").on_cluster();
    INFRASTRUCTURE = Rule::new(
        "kcp-infrastructure-ref", "spec.machineTemplate.spec.infrastructureRef",
        "must have an apiGroup, a kind and a name");
    TAINTS_GATE = Rule::new(
        "kcp-taints-gate", "spec.machineTemplate.spec.taints",
        "must be empty while the feature gate MachineTaintPropagation is off");
    TAINT_KEY = Rule::new(
        "kcp-taint-key", "spec.machineTemplate.spec.taints[].key",
        "must be a key that no component of Kubernetes manages");
    TEMPLATE_METADATA = Rule::new(
        "kcp-template-metadata", "spec.machineTemplate.metadata", "must have valid labels and annotations");
    VERSION = Rule::new(
        "kcp-version", "spec.version", "must be v followed by a semantic version with three numbers");
    STRATEGY = Rule::new("kcp-rollout-strategy", "spec.rollout.strategy.type", "must be RollingUpdate");
    SCALE_IN = Rule::new(
        "kcp-scale-in-replicas", "spec.rollout.strategy.rollingUpdate",
        "must have maxSurge 1 while replicas is less than 3");
    MAX_SURGE = Rule::new("kcp-max-surge", "spec.rollout.strategy.rollingUpdate.maxSurge", "must be 0 or 1");
    CERTIFICATE_VALIDITY = Rule::new(
        "kcp-certificate-validity", "spec.kubeadmConfigSpec.clusterConfiguration.certificateValidityPeriodDays",
        "must be at most caCertificateValidityPeriodDays");
    CERTIFICATES_EXPIRY = Rule::new(
        "kcp-certificates-expiry", "spec.rollout.before.certificatesExpiryDays",
        "must be less than certificateValidityPeriodDays");
    NAMING = Rule::new(
        "kcp-machine-naming", "spec.machineNaming.template",
        "must be a template that contains {{ .random }} and results in valid names");
    DNS_TAG = Rule::new(
        "kcp-dns-image-tag", "spec.kubeadmConfigSpec.clusterConfiguration.dns.imageTag",
        "must be the tag of an image, and a version of CoreDNS");
    ETCD_TAG = Rule::new(
        "kcp-etcd-image-tag", "spec.kubeadmConfigSpec.clusterConfiguration.etcd.local.imageTag",
        "must be the tag of an image");
    ONE_ETCD = Rule::new(
        "kcp-etcd-local-and-external", "spec.kubeadmConfigSpec.clusterConfiguration.etcd.local",
        "must be absent while etcd.external is set");
    SAME_ETCD = Rule::new(
        "kcp-etcd-kind", "spec.kubeadmConfigSpec.clusterConfiguration.etcd.external",
        "must stay set or stay absent: a control plane keeps its kind of etcd").on_update();
    FILES = Rule::new(
        "kcp-files", "spec.kubeadmConfigSpec.files[]",
        "must have different paths, and one source of content each");
    USERS = Rule::new(
        "kcp-users", "spec.kubeadmConfigSpec.users[]", "must have at most one source of a password");
    IGNITION = Rule::new(
        "kcp-ignition", "spec.kubeadmConfigSpec.format", "must use only what the format supports");
    DISK_LAYOUT = Rule::new(
        "kcp-disk-layout", "spec.kubeadmConfigSpec.diskSetup.partitions[].diskLayout",
        "must have percentages with a sum of at most 100");
    BOOTSTRAP_TOKEN = Rule::new(
        "kcp-bootstrap-token", "spec.kubeadmConfigSpec.initConfiguration.bootstrapTokens[].token",
        "must be a bootstrap token such as abcdef.0123456789abcdef");
    KUBECONFIG_USER = Rule::new(
        "kcp-kubeconfig-user", "spec.kubeadmConfigSpec.joinConfiguration.discovery.file.kubeConfig.user",
        "must have only one of authProvider and exec");
    HEALTH_CHECK_TIMEOUTS = Rule::new(
        "kcp-health-check-timeouts",
        "spec.kubeadmConfigSpec.initConfiguration.timeouts.controlPlaneComponentHealthCheckSeconds",
        "must be the same in initConfiguration.timeouts and in joinConfiguration.timeouts");
    IMMUTABLE = Rule::new("kcp-field-immutable", "spec", "must stay as it is").on_update();
    VERSION_SKIP = Rule::new(
        "kcp-version-skip", "spec.version", "must be at most one minor version higher than the current version")
        .on_update();
    DOWNGRADE = Rule::new(
        "kcp-version-downgrade", "spec.version", "must not be lower than the current version").on_update();
    ROLLOUT = Rule::new(
        "kcp-rollout", "spec", "warns of the changes that replace machines").on_update();
    FEWER_MACHINES = Rule::new(
        "kcp-fewer-machines", "spec.replicas", "warns of the machines that a smaller number deletes").on_update();
    CORE_DNS = Rule::new(
        "kcp-core-dns-path", "spec.kubeadmConfigSpec.clusterConfiguration.dns.imageTag",
        "must be a version to which the configuration of CoreDNS can be migrated").on_update();
    TEMPLATE_GATE = Rule::new(
        "kcpt-cluster-topology", "spec", "must not be created while the feature gate ClusterTopology is off")
        .of_template(&[Operation::Create]);
    TEMPLATE_IMMUTABLE = Rule::new("kcpt-immutable", "spec.template.spec", "must stay as it is")
        .of_template(&[Operation::Update]);
}
