//! The state of the environment: what is stored, and what its actors know.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use capstan_core::api::config_openshift_io::cluster_operator::ClusterOperator;
use capstan_core::api::core_v1::node::Node;
use capstan_core::api::machine_openshift_io::control_plane_machine_set::ControlPlaneMachineSet;

use serde::{Deserialize, Serialize};

use crate::infrastructure::etcd::{Members, Report};
use crate::infrastructure::{Fault, Next};
use crate::simulation::engine::schedule::Schedule;
use crate::simulation::invariants::evidence::Evidence;
use crate::simulation::invariants::moment::{Machines, Moment};
use crate::simulation::mutants::catalogue::Mutant;

use super::act::{Act, MachineFault};
use super::neighbours::Neighbours;
use super::vocabulary::{self, Word};

/// A schedule of this environment.
pub type ClusterSchedule = Schedule<Setup, Act>;

/// What a schedule sets the environment up with.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Setup {
    /// The number of control plane machines.
    pub replicas: u32,
    /// The strategy of the set.
    #[serde(deserialize_with = "vocabulary::known")]
    pub strategy: Word,
    /// The state of the set that the installer creates; `None`: it creates none.
    #[serde(deserialize_with = "vocabulary::optional")]
    pub state: Option<Word>,
    /// Whether the generator runs.
    pub generates: bool,
    /// Whether the CRD of the set contains the field `status.machines` at first.
    pub keeps_machines: bool,
    /// What surrounds the control plane.
    pub neighbours: Neighbours,
    /// The bug that the controllers have.
    #[serde(skip)]
    pub mutant: Option<Mutant>,
}

impl Default for Setup {
    /// Three machines under an Active set, without the generator.
    fn default() -> Self {
        Self {
            replicas: 3,
            strategy: "RollingUpdate",
            state: Some("Active"),
            generates: false,
            keeps_machines: true,
            neighbours: Neighbours::default(),
            mutant: None,
        }
    }
}

/// What the machine controller and the instances know. Machines are given by uid.
#[derive(Debug, Default)]
pub(crate) struct Provider {
    /// The next step of a machine, which is in the queue.
    pub(crate) due: BTreeMap<String, Next>,
    /// Machines whose node has been drained.
    pub(crate) drained: BTreeSet<String>,
    /// What goes wrong with a machine.
    pub(crate) faults: BTreeMap<String, MachineFault>,
    /// What goes wrong with the next new machines.
    pub(crate) next_faults: VecDeque<MachineFault>,
    /// Machines whose instance runs.
    pub(crate) instances: BTreeSet<String>,
    /// Names of nodes that are not ready, and the number of faults that keep them so.
    pub(crate) down: BTreeMap<String, u32>,
}

impl Provider {
    /// What goes wrong with a machine.
    pub(crate) fn fault(&self, uid: &str) -> Fault {
        match self.faults.get(uid) {
            Some(MachineFault::Fails | MachineFault::Ghost) => Fault::Fails("no capacity".to_owned()),
            Some(MachineFault::NeverJoins) => Fault::NeverJoins,
            Some(MachineFault::NeverReady) => Fault::NeverReady,
            Some(MachineFault::NeverEnds) => Fault::NeverEnds,
            Some(
                MachineFault::Slow | MachineFault::OtherName | MachineFault::EarlyNode | MachineFault::EarlyUnknownNode,
            )
            | None => Fault::None,
        }
    }
}

/// What is wrong with etcd for a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ailment {
    /// A member is not healthy.
    Sick,
    /// No learner is promoted.
    Unpromoted,
    /// The operator reports nothing.
    Mute,
}

/// What the etcd operator knows.
#[derive(Debug, Default)]
pub(crate) struct Etcd {
    pub(crate) members: Members,
    /// What the operator reported last.
    pub(crate) reported: Report,
    /// The next step is in the queue.
    pub(crate) is_due: bool,
    /// Etcd lost its quorum, and its restoration is in the queue.
    pub(crate) is_restored_soon: bool,
    /// The numbers of faults: sick, unpromoted, mute.
    pub(crate) sick: u32,
    /// Since when a member has been sick.
    pub(crate) sick_since: Option<i64>,
    pub(crate) unpromoted: u32,
    pub(crate) mute: u32,
}

impl Etcd {
    /// The number of faults that cause an ailment.
    pub(crate) fn count(&mut self, ailment: Ailment) -> &mut u32 {
        match ailment {
            Ailment::Sick => &mut self.sick,
            Ailment::Unpromoted => &mut self.unpromoted,
            Ailment::Mute => &mut self.mute,
        }
    }
}

/// Whether the webhook can be reached, and what the webhooks of other components do.
#[derive(Debug, Default)]
pub(crate) struct Webhook {
    /// The number of faults that keep it out of reach.
    pub(crate) outages: u32,
    /// Shared with the admission of the API server.
    pub(crate) is_down: Arc<AtomicBool>,
    /// The number of faults that make the webhook of another component refuse new machines.
    pub(crate) refusals: u32,
    /// Shared with the admission of the API server.
    pub(crate) refuses_machines: Arc<AtomicBool>,
    /// The number of faults that make the webhook of another component drop a field.
    pub(crate) drops: u32,
    /// Shared with the admission of the API server.
    pub(crate) drops_field: Arc<AtomicBool>,
}

/// An event of an actor.
#[derive(Debug)]
pub(crate) enum Event {
    /// The next step of a machine, by name and uid.
    Machine(String, String),
    /// The next step of the etcd operator.
    Etcd,
    /// A node is ready again.
    NodeBack(String),
    /// A node without a machine is gone.
    StrangerGone(String),
    /// An ailment of etcd ends.
    EtcdWell(Ailment),
    /// An administrator restores etcd, which lost its quorum.
    EtcdRestored,
    /// An outage of the webhook ends.
    WebhookBack,
    /// The webhook of another component admits new machines again.
    MachinesAdmitted,
    /// The webhook of another component stops dropping a field.
    FieldStored,
}

/// The environment.
#[derive(Debug)]
pub(crate) struct ControlPlane {
    pub(crate) setup: Setup,
    // Shared with the moments that invariants look at.
    pub(crate) machines: Arc<Machines>,
    pub(crate) nodes: Arc<BTreeMap<String, Arc<Node>>>,
    pub(crate) set: Option<Arc<ControlPlaneMachineSet>>,
    /// Capstan's ClusterOperator.
    pub(crate) operator: Option<Arc<ClusterOperator>>,
    pub(crate) provider: Provider,
    pub(crate) etcd: Etcd,
    pub(crate) webhook: Webhook,
    /// Whether the CRD of the set contains the field `status.machines`.
    pub(crate) keeps_machines: bool,
    /// How often a user changed the template.
    pub(crate) edition: u32,
    /// How often a user changed the labels of the template.
    pub(crate) relabelled: u32,
    /// How often a user created or changed a machine.
    pub(crate) handmade: u32,
    /// Whether a machine is outdated or being deleted.
    pub(crate) is_rolling: bool,
    /// The seeded bug gave up a write for ever.
    pub(crate) gave_up: bool,
    pub(crate) evidence: Evidence,
}

impl ControlPlane {
    /// An environment without objects.
    pub(crate) fn new(setup: &Setup) -> Self {
        Self {
            setup: setup.clone(),
            machines: Arc::default(),
            nodes: Arc::default(),
            set: None,
            operator: None,
            provider: Provider::default(),
            etcd: Etcd::default(),
            webhook: Webhook::default(),
            keeps_machines: true,
            edition: 0,
            relabelled: 0,
            handmade: 0,
            is_rolling: false,
            gave_up: false,
            evidence: Evidence::new(setup.replicas, setup.neighbours.judges_status),
        }
    }

    /// What is true now.
    pub(crate) fn moment(&self) -> Moment {
        Moment {
            machines: Arc::clone(&self.machines),
            nodes: Arc::clone(&self.nodes),
            set: self.set.clone(),
            etcd_healthy: self.etcd.reported == Report::Healthy,
        }
    }

    /// Whether the node of a machine is ready.
    pub(crate) fn has_ready_node(&self, machine: &str) -> bool {
        let machine = self.machines.get(machine);
        let node = machine.and_then(|machine| self.nodes.get(machine.node_name()?));
        node.is_some_and(|node| node.is_ready())
    }

    /// The name of the machine at a position, in the order of names. Positions beyond the last
    /// machine wrap around.
    pub(crate) fn machine_at(&self, position: usize) -> Option<String> {
        let position = position.checked_rem(self.machines.len())?;
        self.machines.keys().nth(position).cloned()
    }

    /// Whether the seeded bug is this one.
    pub(crate) fn has_bug(&self, bug: impl Fn(Mutant) -> bool) -> bool {
        self.setup.mutant.is_some_and(bug)
    }
}
