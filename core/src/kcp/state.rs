//! The state of a control plane: its machines with their health, its etcd members, and the failure
//! domains.
//!
//! The state is built from one snapshot and one moment. It decides nothing. A condition that is
//! absent is not true.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::observed::{EtcdMembers, Observed, ReportedMember, cluster_name};
use super::outdated::{Difference, Parts, Wanted, differences};
use crate::api::bootstrap_cluster_x_k8s_io::kubeadm_config::{
    self, ClusterConfiguration, Discovery, KubeadmConfig, KubeadmConfigSpec,
};
use crate::api::cluster_x_k8s_io::control_plane::{Cluster, Machine, MachineCondition};
use crate::api::cluster_x_k8s_io::{annotation, label};
use crate::api::controlplane_cluster_x_k8s_io::annotation::PRE_TERMINATE_HOOK;
use crate::api::controlplane_cluster_x_k8s_io::kubeadm_control_plane::{self, KubeadmControlPlane};
use crate::api::core_v1::node::{CONTROL_PLANE_LABEL, Node};
use crate::api::meta::{Condition, OwnerReference};
use crate::model::{EtcdMember, pending_creations};

/// Conditions of control plane machines.
pub mod condition {
    /// The pod of the API server is healthy.
    pub const API_SERVER: &str = "APIServerPodHealthy";
    /// The pod of the controller manager is healthy.
    pub const CONTROLLER_MANAGER: &str = "ControllerManagerPodHealthy";
    /// The pod of the scheduler is healthy.
    pub const SCHEDULER: &str = "SchedulerPodHealthy";
    /// The pod of etcd is healthy.
    pub const ETCD_POD: &str = "EtcdPodHealthy";
    /// The etcd member is healthy.
    pub const ETCD_MEMBER: &str = "EtcdMemberHealthy";
    /// The node has the labels and taints of kubeadm.
    pub const LABELS_AND_TAINTS: &str = "NodeKubeadmLabelsAndTaintsSet";
    /// A health check found the machine healthy.
    pub const HEALTH_CHECK_SUCCEEDED: &str = "HealthCheckSucceeded";
    /// The controller of the machine remediated it.
    pub const OWNER_REMEDIATED: &str = "OwnerRemediated";
    /// The machine is being deleted, and how far.
    pub const DELETING: &str = "Deleting";
}

/// The taint that keeps the pods of users away from control plane machines.
pub(super) const CONTROL_PLANE_TAINT: &str = "node-role.kubernetes.io/control-plane";

/// The components of Kubernetes on a control plane machine.
const KUBERNETES: &[&str] = &[
    condition::API_SERVER,
    condition::CONTROLLER_MANAGER,
    condition::SCHEDULER,
];
/// The same, and the etcd of the machine.
const KUBERNETES_AND_ETCD: &[&str] = &[
    condition::API_SERVER,
    condition::CONTROLLER_MANAGER,
    condition::SCHEDULER,
    condition::ETCD_POD,
    condition::ETCD_MEMBER,
];

/// A machine of the control plane.
#[derive(Clone, Debug)]
pub struct MachineState {
    /// The machine.
    pub machine: Arc<Machine>,
    /// Why it is outdated; empty if it is up to date.
    pub differences: Vec<Difference>,
    /// How it differs from the revision that it was created from. A new machine would differ in
    /// the same way, so it is not outdated.
    pub deviations: Vec<Difference>,
    /// The name of its Node, also if only the Node refers to the machine.
    pub member: Option<String>,
    /// The provider ID of its instance, if the infrastructure reports one.
    pub provider_id: Option<String>,
    /// The version that the kubelet of its Node reports.
    pub kubelet_version: Option<String>,
    /// Whether its Node must have the taint of control plane machines. False without a
    /// KubeadmConfig, because the configuration is unknown then.
    pub expects_taint: bool,
    /// Whether it was created for an external etcd; `None` if no object of the machine says it.
    pub has_external_etcd: Option<bool>,
    /// How long the observer has seen it being deleted. `None`: a clock decides.
    pub leaving_for: Option<SignedDuration>,
}

impl MachineState {
    /// The name.
    pub fn name(&self) -> &str {
        self.machine.metadata.name()
    }

    /// The Node in the status of the machine.
    pub fn node(&self) -> Option<&str> {
        let name = self.machine.status.node_ref.name.as_str();
        (!name.is_empty()).then_some(name)
    }

    /// The failure domain; empty for none.
    pub fn failure_domain(&self) -> &str {
        &self.machine.spec.failure_domain
    }

    /// Whether the machine agrees with the control plane.
    pub fn is_current(&self) -> bool {
        self.differences.is_empty()
    }

    /// Whether its deletion was requested.
    pub fn is_deleting(&self) -> bool {
        self.machine.metadata.is_deleting()
    }

    /// Whether it has an annotation, with any value.
    pub fn has(&self, annotation: &str) -> bool {
        self.machine.metadata.annotations.contains_key(annotation)
    }

    /// A condition.
    pub fn condition(&self, type_: &str) -> Option<&MachineCondition> {
        let mut conditions = self.machine.status.conditions.iter();
        conditions.find(|condition| condition.type_ == type_)
    }

    /// Whether a condition is `True`.
    pub fn is_true(&self, type_: &str) -> bool {
        self.condition(type_)
            .is_some_and(|condition| condition.status == "True")
    }

    /// Whether a condition is `False`.
    pub fn is_false(&self, type_: &str) -> bool {
        self.condition(type_)
            .is_some_and(|condition| condition.status == "False")
    }

    /// Whether a health check found the machine unhealthy.
    pub fn is_unhealthy(&self) -> bool {
        self.is_false(condition::HEALTH_CHECK_SUCCEEDED)
    }

    /// Whether a health check requests that the control plane replaces the machine.
    pub fn needs_remediation(&self) -> bool {
        self.is_unhealthy() && self.is_false(condition::OWNER_REMEDIATED)
    }

    /// The order of age: the oldest machine first, and then by name.
    pub fn age(&self) -> (Option<Timestamp>, &str) {
        (self.machine.metadata.creation_timestamp, self.name())
    }
}

/// On a Machine, with the reason as its value: etcd needs the member of the Machine. A restore
/// keeps it.
pub const REQUIRED: &str = "capstan.dev/required-for-quorum";

/// The state.
#[derive(Clone, Debug)]
pub struct State {
    /// The control plane.
    pub control_plane: KubeadmControlPlane,
    /// Its Cluster.
    pub cluster: Option<Arc<Cluster>>,
    /// The control plane to which the Cluster refers instead of this one. Then it is not the
    /// Cluster of this one, whatever the label says.
    pub referred: Option<String>,
    /// The name of its Cluster.
    pub cluster_name: String,
    /// The machines that it controls, by name.
    pub machines: Vec<MachineState>,
    /// Control plane machines of the Cluster without a controller.
    pub adoptable: Vec<Arc<Machine>>,
    /// Control plane machines with the label of the Cluster and another controller, or another
    /// Cluster in their spec.
    pub foreign: Vec<String>,
    /// Machines that it controls, and that are not labelled as control plane machines of its
    /// Cluster. One that is being deleted, also with the control plane, counts as its machine:
    /// only the control plane can release it.
    pub strayed: Vec<String>,
    /// Machines of the Cluster without the label of control planes, with the hook of control plane
    /// machines, and without a controller, or with a former control plane of this name as their
    /// controller: each was a machine of a control plane.
    pub orphans: Vec<Arc<Machine>>,
    /// Machines and MachinePools of the Cluster that belong to no control plane.
    pub workers: Vec<String>,
    /// A worker that has a Node, or data of the kubeadm bootstrap provider: a Machine or a
    /// MachinePool. The provider writes such data only after the control plane is initialized, and
    /// a restore keeps it.
    pub joined_worker: Option<String>,
    /// A KubeadmConfig of the Cluster that a machine used after the control plane was initialized.
    pub used_config: Option<String>,
    /// The etcd members as they are reported; `None` if etcd is external or no member answers.
    pub reported: Option<EtcdMembers>,
    /// The Nodes that are ready, and the Nodes of machines that the control plane does not control.
    /// An etcd member of such a Node is in use.
    pub used_nodes: BTreeSet<String>,
    /// The control plane Nodes that are ready: the managed cluster has a control plane that works.
    pub serving_nodes: BTreeSet<String>,
    /// The provider IDs of the Nodes that have one, by name.
    pub provider_ids: BTreeMap<String, String>,
    /// The names of all Nodes and etcd members. A new machine gets none of them.
    pub remains: BTreeSet<String>,
    /// The names of the failure domains for control plane machines, sorted.
    pub failure_domains: Vec<String>,
}

impl State {
    /// What is known without the machines and the etcd members.
    fn without_machines(observed: &Observed) -> Self {
        let control_plane = observed.control_plane.clone();
        let cluster_name = cluster_name(&control_plane);
        let referred = referred(observed.cluster.as_deref(), control_plane.metadata.name());
        Self {
            failure_domains: failure_domains(observed.cluster.as_deref()),
            cluster: observed.cluster.clone().filter(|_| referred.is_none()),
            referred,
            machines: Vec::new(),
            adoptable: Vec::new(),
            foreign: Vec::new(),
            strayed: Vec::new(),
            orphans: Vec::new(),
            workers: Vec::new(),
            joined_worker: None,
            used_config: used_config(observed, &cluster_name),
            used_nodes: BTreeSet::new(),
            serving_nodes: serving_nodes(observed),
            provider_ids: provider_ids(observed),
            remains: remains(observed),
            reported: None,
            control_plane,
            cluster_name,
        }
    }

    /// The state at one moment.
    pub fn observe(observed: &Observed, now: Timestamp) -> Self {
        let wanted = observed.wanted();
        let state = Self::without_machines(observed);
        let labels = |machine: &Machine| {
            let labels = &machine.metadata.labels;
            let cluster = labels.get(label::CLUSTER).or(Some(&machine.spec.cluster_name));
            (
                cluster == Some(&state.cluster_name),
                labels.contains_key(label::CONTROL_PLANE),
            )
        };
        let revisions = recorded_revisions(&observed.control_plane);
        let mut machines: Vec<&Arc<Machine>> = observed.machines.iter().collect();
        machines.sort_by(|left, right| left.metadata.name().cmp(right.metadata.name()));
        let (mut owned, mut adoptable, mut foreign) = (Vec::new(), Vec::new(), Vec::new());
        let (mut strayed, mut orphans, mut workers) = (Vec::new(), Vec::new(), Vec::new());
        let mut joined_worker = observed.joined_pool.clone();
        for machine in machines {
            let (name, owner) = (machine.metadata.name(), machine.metadata.controller());
            let is_owned = owner.is_some_and(|owner| is_owner(&state.control_plane, owner));
            let (of_cluster, of_control_plane) = labels(machine);
            let leaves = machine.metadata.is_deleting() || state.is_deleting();
            if is_owned && of_cluster && (of_control_plane || leaves) {
                let recorded = revisions.get(name).map_or(&[][..], Vec::as_slice);
                owned.push(machine_state(&wanted, machine, recorded, observed, now));
                continue;
            }
            match (of_cluster, of_control_plane, owner) {
                (true, true, None) if state.is_of_another_cluster(machine) => foreign.push(name.to_owned()),
                (true, true, None) => adoptable.push(Arc::clone(machine)),
                (true, true, Some(_)) => foreign.push(name.to_owned()),
                (true, false, _) => {
                    workers.push(name.to_owned());
                    joined_worker = joined_worker.or_else(|| has_joined(machine).then(|| name.to_owned()));
                }
                (false, ..) => {}
            }
            if is_owned {
                strayed.push(name.to_owned());
            }
            let has_hook = machine.metadata.annotations.contains_key(PRE_TERMINATE_HOOK);
            let is_former = |owner: &OwnerReference| !is_owned && is_namesake(&state.control_plane, owner);
            if of_cluster && !of_control_plane && owner.is_none_or(is_former) && has_hook {
                orphans.push(Arc::clone(machine));
            }
        }
        workers.extend(observed.machine_pools.iter().cloned());
        let used_nodes = used_nodes(observed, &owned);
        let state = Self {
            used_nodes,
            machines: owned,
            adoptable,
            foreign,
            strayed,
            orphans,
            workers,
            joined_worker,
            ..state
        };
        Self {
            reported: observed.etcd.clone().filter(|_| state.is_etcd_managed()),
            ..state
        }
    }

    /// Whether the spec of a machine names another Cluster: its label was edited (V315).
    fn is_of_another_cluster(&self, machine: &Machine) -> bool {
        let named = &machine.spec.cluster_name;
        !named.is_empty() && *named != self.cluster_name
    }

    /// The name of the control plane.
    pub fn name(&self) -> &str {
        self.control_plane.metadata.name()
    }

    /// The namespace of all objects.
    pub fn namespace(&self) -> &str {
        self.control_plane.metadata.namespace.as_deref().unwrap_or_default()
    }

    /// The number of machines that is wanted; `None` before it is set.
    pub fn replicas(&self) -> Option<usize> {
        let replicas = self.control_plane.spec.replicas?;
        if self.is_deleting() {
            return Some(0);
        }
        usize::try_from(replicas).ok()
    }

    /// How many machines a rollout may create in addition.
    pub fn max_surge(&self) -> usize {
        let surge = &self.control_plane.spec.rollout.strategy.rolling_update.max_surge;
        let number = surge.as_ref().map_or(Some(1), |surge| surge.number());
        // Admission allows 0 and 1. Any other value is read as 0, which creates no machine.
        usize::from(number == Some(1))
    }

    /// Whether the deletion of the control plane was requested.
    pub fn is_deleting(&self) -> bool {
        self.control_plane.metadata.is_deleting()
    }

    /// Whether the deletion of the Cluster was requested.
    pub fn cluster_is_deleting(&self) -> bool {
        let cluster = self.cluster.as_ref();
        cluster.is_some_and(|cluster| cluster.metadata.is_deleting())
    }

    /// Whether the API server of the first machine has served once.
    pub fn is_initialized(&self) -> bool {
        let initialization = &self.control_plane.status.initialization;
        initialization.control_plane_initialized == Some(true)
    }

    /// Whether etcd runs on the machines. The machines decide, because a spec that was changed
    /// while the webhook was down does not move etcd (V306).
    pub fn is_etcd_managed(&self) -> bool {
        let mut known = self.machines.iter().filter_map(|machine| machine.has_external_etcd);
        match known.next() {
            Some(is_external) => !is_external || known.any(|is_external| !is_external),
            None => !self.wants_external_etcd(),
        }
    }

    /// Whether the spec names an external etcd.
    pub(super) fn wants_external_etcd(&self) -> bool {
        let kubeadm = &self.control_plane.spec.kubeadm_config_spec;
        kubeadm.cluster_configuration.has_external_etcd()
    }

    /// The machines whose etcd is not where the spec says. While one machine runs etcd, as the spec
    /// says, the others with an external etcd are outdated machines, which can be replaced.
    pub(super) fn with_another_etcd(&self) -> Vec<&str> {
        let wanted = self.wants_external_etcd();
        if !wanted && self.is_etcd_managed() {
            return Vec::new();
        }
        let machines = self.machines.iter();
        let differ = machines.filter(|machine| machine.has_external_etcd.is_some_and(|known| known != wanted));
        differ.map(MachineState::name).collect()
    }

    /// The conditions of a machine that works.
    pub fn components(&self) -> &'static [&'static str] {
        if self.is_etcd_managed() {
            KUBERNETES_AND_ETCD
        } else {
            KUBERNETES
        }
    }

    /// A condition of the control plane.
    pub fn condition(&self, type_: &str) -> Option<&Condition> {
        let mut conditions = self.control_plane.status.conditions.iter();
        conditions.find(|condition| condition.type_ == type_)
    }

    /// An annotation of the control plane.
    pub fn annotation(&self, name: &str) -> Option<&str> {
        let annotations = &self.control_plane.metadata.annotations;
        annotations.get(name).map(String::as_str)
    }

    /// Whether the controller must ignore the control plane.
    pub fn is_paused(&self) -> bool {
        let by_cluster = self.cluster.as_ref().is_some_and(|cluster| cluster.spec.paused);
        by_cluster || self.annotation(annotation::PAUSED).is_some()
    }

    /// The etcd members as they were reported; none if they are unknown.
    pub(super) fn reported_members(&self) -> impl Iterator<Item = &ReportedMember> {
        self.reported.iter().flat_map(|reported| &reported.members)
    }

    /// Whether an etcd member is reported to fail.
    pub(super) fn is_reported_to_fail(&self, name: &str) -> bool {
        self.reported_members()
            .any(|member| member.name == name && member.healthy == Some(false))
    }

    /// Whether an etcd member is that of a machine whose Node is known.
    pub(super) fn has_machine_of(&self, member: &str) -> bool {
        let mut machines = self.machines.iter();
        machines.any(|machine| machine.member.as_deref() == Some(member))
    }

    /// A machine by name.
    pub fn machine(&self, name: &str) -> Option<&MachineState> {
        self.machines.iter().find(|machine| machine.name() == name)
    }

    /// The machines that a rollout replaces: outdated, and not being deleted.
    pub fn outdated(&self) -> Vec<&MachineState> {
        let outdated = |machine: &&MachineState| !machine.is_current() && !machine.is_deleting();
        self.machines.iter().filter(outdated).collect()
    }

    /// The machines that are being deleted.
    pub fn deleting(&self) -> impl Iterator<Item = &MachineState> {
        self.machines.iter().filter(|machine| machine.is_deleting())
    }

    /// Whether the status of the Cluster says that its control plane is initialized. Then the
    /// kubeadm bootstrap provider lets every new machine join.
    pub(super) fn cluster_is_initialized(&self) -> bool {
        let cluster = self.cluster.as_ref().map(|cluster| &cluster.status.initialization);
        cluster.is_some_and(|cluster| cluster.control_plane_initialized == Some(true))
    }

    /// Whether the machines may have data that the control plane needs. Statuses may be lost, or
    /// were never written (V132). So the status of the Cluster, a Node, an etcd member (V298), a
    /// machine that etcd needed (V300), a worker that joined (V317), a second machine (V318), and
    /// a machine whose configuration was used (V319) prove it too.
    pub(super) fn has_data(&self) -> bool {
        let is_used = |machine: &MachineState| {
            let is_marked = machine.has(REQUIRED) || machine.is_true(condition::ETCD_MEMBER);
            machine.node().is_some() || is_marked
        };
        // Only a running API server registers Nodes. The second machine is created after the first
        // one has served.
        let has_joined = self.joined_worker.is_some() || self.used_config.is_some();
        let is_seen = !self.remains.is_empty() || has_joined || self.machines.len() > 1;
        let is_known = self.is_initialized() || self.cluster_is_initialized();
        is_known || is_seen || self.machines.iter().any(is_used)
    }

    /// What a user does if the data of the control plane may be lost, or is lost.
    pub(super) fn giving_up(&self) -> String {
        match self.cluster_is_initialized() {
            true => String::from(
                "If its data may be lost, delete the Cluster and create it again: its status says that the control plane \
                 is initialized, so that every new machine would try to join",
            ),
            false => format!(
                "If its data may be lost, remove the annotation {PRE_TERMINATE_HOOK} from the deleted Machines, and the \
                 control plane begins again"
            ),
        }
    }

    /// Whether all machines are being deleted and keep their hooks: the last of them goes only
    /// after another one joined.
    pub fn all_leave(&self) -> bool {
        let leaves = |machine: &MachineState| machine.is_deleting() && machine.has(PRE_TERMINATE_HOOK);
        !self.machines.is_empty() && self.machines.iter().all(leaves) && self.has_data()
    }

    /// The version to which the Cluster is upgraded before the control plane has that version.
    pub fn pending_version(&self) -> Option<&str> {
        let cluster = self.cluster.as_deref()?;
        let (wanted, own) = (&cluster.spec.topology.version, &self.control_plane.spec.version);
        let step = cluster.metadata.annotations.get(annotation::UPGRADE_STEP);
        let is_pending = !wanted.is_empty() && wanted != own && step != Some(own);
        is_pending.then(|| step.filter(|step| !step.is_empty()).unwrap_or(wanted).as_str())
    }

    /// The etcd members with their health; `None` if they are unknown or etcd is external.
    ///
    /// A member is healthy if it has no alarm, and the condition of its machine is true, if it has
    /// a machine. A machine that lost the reference to its Node counts only if nothing else says
    /// whether the member works (V302).
    pub fn members(&self) -> Option<Vec<EtcdMember>> {
        let reported = self.reported.as_ref()?;
        let members = reported.members.iter().map(|member| {
            let name = Some(member.name.as_str());
            let is_known = |machine: &&MachineState| {
                machine.node() == name || (member.healthy.is_none() && machine.member.as_deref() == name)
            };
            let machine = self.machines.iter().find(is_known);
            let is_healthy = machine.is_none_or(|machine| machine.is_true(condition::ETCD_MEMBER));
            EtcdMember {
                name: member.name.clone(),
                is_learner: member.learner,
                is_healthy: is_healthy && member.alarms.is_empty() && member.healthy != Some(false),
            }
        });
        Some(members.collect())
    }
}

/// The etcd members that work and have no machine of the control plane: their machines are lost, or
/// have lost their labels or their owner. Empty while they may be the members of machines that have
/// no Node yet, and if etcd is external.
pub(super) fn members_without_machine(state: &State) -> Vec<&str> {
    let reported = state.reported_members();
    let has_machine = |name: &str| {
        let mut machines = state.machines.iter();
        machines.any(|machine| machine.node() == Some(name) || machine.member.as_deref() == Some(name))
    };
    // Without a member of its own, a machine may have one under another name, unless it is known
    // that the member does not work (V303).
    let lacks_member = state.machines.iter().any(|machine| {
        let is_listed = |name: &str| state.reported_members().any(|member| member.name == name);
        let leaves = machine.is_deleting() && !machine.has(PRE_TERMINATE_HOOK);
        !leaves && machine.member.as_deref().is_some_and(|name| !is_listed(name))
    });
    let works = |member: &&ReportedMember| {
        let may_work = member.healthy == Some(true) || (member.healthy.is_none() && lacks_member);
        may_work || state.used_nodes.contains(&member.name)
    };
    let working = reported.filter(|member| !member.name.is_empty()).filter(works);
    let names: Vec<&str> = working.map(|member| member.name.as_str()).collect();
    let names: Vec<&str> = names.into_iter().filter(|name| !has_machine(name)).collect();
    let nodeless = || state.machines.iter().filter(|machine| machine.member.is_none());
    let is_possible = |name: &&str| nodeless().any(|machine| may_have_node(machine, name, state));
    let possible = names.iter().filter(|name| is_possible(name)).count();
    if possible == names.len() && possible <= nodeless().count() {
        return Vec::new();
    }
    names
}

/// Whether a Node may be that of a machine without a known Node: not if it has another provider ID
/// (V310).
fn may_have_node(machine: &MachineState, node: &str, state: &State) -> bool {
    let of_node = state.provider_ids.get(node);
    of_node.is_none_or(|id| machine.provider_id.as_ref().is_none_or(|own| own == id))
}

/// The names of the etcd members that the machine may have. A machine without a known Node may have
/// every member that is not the member of another machine. A learner is that of a machine which has
/// not joined, so a voting member beside it that does not answer is not (V244). Empty if etcd is
/// external.
pub(super) fn possible_members<'a>(machine: &'a MachineState, state: &'a State) -> Vec<&'a str> {
    if !state.is_etcd_managed() {
        return Vec::new();
    }
    if let Some(member) = machine.member.as_deref() {
        return vec![member];
    }
    let reported = state.reported_members();
    let unknown = reported.filter(|member| !state.has_machine_of(&member.name));
    let unknown: Vec<&ReportedMember> = unknown.collect();
    let learns = |member: &ReportedMember| member.learner || member.name.is_empty();
    let one_learns = unknown.iter().any(|member| learns(member));
    let may_own = |member: &ReportedMember| !one_learns || learns(member) || member.healthy != Some(false);
    let own = unknown
        .into_iter()
        .filter(|member| !member.name.is_empty() && may_own(member));
    own.map(|member| member.name.as_str()).collect()
}

/// The control plane of a Cluster, if it is not the one with this name.
fn referred(cluster: Option<&Cluster>, name: &str) -> Option<String> {
    let reference = &cluster?.spec.control_plane_ref;
    let is_own = reference.kind == kubeadm_control_plane::KIND && reference.name == name;
    (!reference.name.is_empty() && !is_own).then(|| format!("{} {}", reference.kind, reference.name))
}

/// Whether a worker has joined, or may join: its control plane is initialized.
fn has_joined(worker: &Machine) -> bool {
    let bootstrap = &worker.spec.bootstrap;
    let secret = bootstrap.unknown_fields.get("dataSecretName").and_then(Value::as_str);
    let has_data = bootstrap.config_ref.kind == kubeadm_config::KIND && secret.is_some_and(|name| !name.is_empty());
    has_data || !worker.status.node_ref.name.is_empty()
}

/// A KubeadmConfig of a control plane machine which shows that the control plane was initialized. A
/// machine that joins has another configuration than the first one, and the expiry is that of the
/// certificate of an API server that served. A restore keeps both. The configuration of a worker
/// tells nothing: a user may write how workers find the cluster before it exists (V322).
fn used_config(observed: &Observed, cluster: &str) -> Option<String> {
    let used = |config: &KubeadmConfig| {
        let (metadata, join) = (&config.metadata, &config.spec.join_configuration);
        let of_cluster = metadata.labels.get(label::CLUSTER).is_some_and(|name| name == cluster);
        let is_own = of_cluster && metadata.labels.contains_key(label::CONTROL_PLANE);
        let joins = join.control_plane.is_some() || join.discovery != Discovery::default();
        is_own && (joins || metadata.annotations.contains_key(annotation::CERTIFICATES_EXPIRY))
    };
    let mut configs = observed.configs.iter();
    configs.find(|(_, config)| used(config)).map(|(name, _)| name.clone())
}

/// The names of the Nodes and of the etcd members.
fn remains(observed: &Observed) -> BTreeSet<String> {
    let reported = observed.etcd.iter().flat_map(|reported| &reported.members);
    let members = reported.map(|member| member.name.clone());
    observed.nodes.keys().cloned().chain(members).collect()
}

/// The control plane Nodes that are ready.
fn serving_nodes(observed: &Observed) -> BTreeSet<String> {
    let serves = |node: &Node| node.is_ready() && node.metadata.labels.contains_key(CONTROL_PLANE_LABEL);
    let nodes = observed.nodes.iter().filter(|(_, node)| serves(node));
    nodes.map(|(name, _)| name.clone()).collect()
}

/// The Nodes that are ready, and the Nodes of machines that the control plane does not control.
fn used_nodes(observed: &Observed, owned: &[MachineState]) -> BTreeSet<String> {
    let ready = observed.nodes.iter().filter(|(_, node)| node.is_ready());
    let is_owned = |machine: &Machine| owned.iter().any(|own| own.name() == machine.metadata.name());
    let others = observed.machines.iter().filter(|machine| !is_owned(machine));
    let named = others.map(|machine| machine.status.node_ref.name.clone());
    let named = named.filter(|name| !name.is_empty());
    ready.map(|(name, _)| name.clone()).chain(named).collect()
}

/// The failure domains for control plane machines, sorted by name.
fn failure_domains(cluster: Option<&Cluster>) -> Vec<String> {
    let domains = cluster.map(|cluster| cluster.status.failure_domains.as_slice());
    let mut names: Vec<String> = domains
        .unwrap_or_default()
        .iter()
        .filter(|domain| domain.control_plane == Some(true))
        .map(|domain| domain.name.clone())
        .collect();
    names.sort();
    names.dedup();
    names
}

/// Whether an owner reference refers to this control plane. An object from a file may have no UID.
pub(super) fn is_owner(control_plane: &KubeadmControlPlane, owner: &OwnerReference) -> bool {
    let uid = control_plane.metadata.uid();
    is_namesake(control_plane, owner) && (uid.is_empty() || owner.uid.is_empty() || owner.uid == uid)
}

/// Whether an owner reference refers to a control plane of this name, perhaps a former one.
fn is_namesake(control_plane: &KubeadmControlPlane, owner: &OwnerReference) -> bool {
    owner.kind == kubeadm_control_plane::KIND && owner.name == control_plane.metadata.name()
}

/// The revisions from which the control plane created machines, as it recorded them. A record that
/// cannot be read tells none, and prevents creations elsewhere.
fn recorded_revisions(control_plane: &KubeadmControlPlane) -> BTreeMap<String, Vec<String>> {
    let records = pending_creations(&control_plane.metadata.annotations).unwrap_or_default();
    let mut revisions: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for record in records {
        revisions.entry(record.machine).or_default().extend(record.revision);
    }
    revisions
}

fn machine_state(
    wanted: &Wanted,
    machine: &Arc<Machine>,
    recorded: &[String],
    observed: &Observed,
    now: Timestamp,
) -> MachineState {
    let spec = &machine.spec;
    let config = observed.configs.get(&spec.bootstrap.config_ref.name);
    let reference = (
        spec.infrastructure_ref.kind.clone(),
        spec.infrastructure_ref.name.clone(),
    );
    let infrastructure = observed.infrastructure.get(&reference);
    let parts = Parts {
        machine,
        config: config.map(Arc::as_ref),
        infrastructure: infrastructure.map(Arc::as_ref),
        recorded,
    };
    let node = &machine.status.node_ref.name;
    let provider_id = match spec.provider_id.as_str() {
        "" => infrastructure.and_then(|object| object.spec.get("providerID")?.as_str()),
        id => Some(id),
    };
    let provider_id = provider_id.filter(|id| !id.is_empty());
    let member = if node.is_empty() {
        provider_id.and_then(|id| node_of(observed, id))
    } else {
        Some(node.clone())
    };
    let reported = observed.nodes.get(node).and_then(|node| {
        let info = node.status.unknown_fields.get("nodeInfo")?;
        info.get("kubeletVersion")?.as_str()
    });
    let (differences, deviations) = differences(wanted, &parts, now);
    let has_member = |name: &String| {
        let mut members = observed.etcd.iter().flat_map(|etcd| &etcd.members);
        members.any(|known| known.name == *name)
    };
    let is_listed = member.as_ref().filter(|name| has_member(name)).map(|_| false);
    MachineState {
        machine: Arc::clone(machine),
        differences,
        deviations,
        member,
        provider_id: provider_id.map(str::to_owned),
        kubelet_version: reported.map(str::to_owned),
        expects_taint: config.is_some_and(|config| expects_taint(&config.spec)),
        has_external_etcd: has_external_etcd(machine, config.map(|config| &config.spec)).or(is_listed),
        leaving_for: observed.leaving.get(machine.metadata.uid()).copied(),
    }
}

/// Whether a machine was created for an external etcd. The configuration of a machine that joined
/// may lack the part for the cluster. Only a machine with its own etcd has conditions about etcd.
fn has_external_etcd(machine: &Machine, config: Option<&KubeadmConfigSpec>) -> Option<bool> {
    let says = |config: &&KubeadmConfigSpec| {
        let joins = config.join_configuration.control_plane.is_some();
        !joins || config.cluster_configuration != ClusterConfiguration::default()
    };
    if let Some(config) = config.filter(says) {
        return Some(config.cluster_configuration.has_external_etcd());
    }
    let mut conditions = machine.status.conditions.iter();
    let has_etcd =
        conditions.any(|known| [condition::ETCD_MEMBER, condition::ETCD_POD].contains(&known.type_.as_str()));
    has_etcd.then_some(false)
}

/// Whether a taint has a key and an effect.
pub(super) fn is_taint(taint: &Value, key: &str, effect: &str) -> bool {
    let text = |field: &str| taint.get(field).and_then(Value::as_str);
    text("key") == Some(key) && text("effect") == Some(effect)
}

/// Whether kubeadm taints the Node: by default, and if the taint is in the configuration.
fn expects_taint(config: &KubeadmConfigSpec) -> bool {
    let registration = match &config.join_configuration.control_plane {
        Some(_) => &config.join_configuration.node_registration,
        None => &config.init_configuration.node_registration,
    };
    let taints = registration.taints.as_ref();
    taints.is_none_or(|taints| {
        taints
            .iter()
            .any(|taint| is_taint(taint, CONTROL_PLANE_TAINT, "NoSchedule"))
    })
}

/// The only Node with this provider id.
fn node_of(observed: &Observed, provider_id: &str) -> Option<String> {
    let mut nodes = observed
        .nodes
        .iter()
        .filter(|(_, node)| id_of(node) == Some(provider_id));
    let only = nodes.next()?;
    nodes.next().is_none().then(|| only.0.clone())
}

/// The provider ID of a Node.
fn id_of(node: &Node) -> Option<&str> {
    let id = node.unknown_fields.get("spec")?.get("providerID")?.as_str()?;
    (!id.is_empty()).then_some(id)
}

fn provider_ids(observed: &Observed) -> BTreeMap<String, String> {
    let nodes = observed.nodes.iter();
    let known = nodes.filter_map(|(name, node)| Some((name.clone(), id_of(node)?.to_owned())));
    known.collect()
}

#[cfg(test)]
mod tests;
