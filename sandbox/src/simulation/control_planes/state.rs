//! The state of the environment: what is stored, what its actors know, and what invariants
//! remember.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use capstan_core::api::core_v1::node::Node;
use capstan_core::api::machine_openshift_io::control_plane::ControlPlane;
use capstan_core::api::machine_openshift_io::machine::Machine;
use capstan_core::api::machine_openshift_io::machine_health_check::MachineHealthCheck;

use crate::infrastructure::etcd::Members;
use crate::infrastructure::{Fault, Next};
use crate::simulation::engine::options::Marks;
use crate::simulation::engine::schedule::Schedule;

use super::act::{Act, MachineFault};
use super::bugs::Bug;
use super::own_members::OwnMembers;

/// A schedule of this environment.
pub(super) type PlaneSchedule = Schedule<Setup, Act>;
/// Machines by name.
pub(super) type Machines = BTreeMap<String, Arc<Machine>>;
/// Nodes by name.
pub(super) type Nodes = BTreeMap<String, Arc<Node>>;

/// What a schedule sets the environment up with.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    /// The number of machines that the installer leaves.
    pub(super) installed: u32,
    /// The number of machines that the first ControlPlane asks for.
    pub(super) replicas: u32,
    /// Whether the first ControlPlane asks for repairs.
    pub(super) repairs: bool,
    /// Whether the controller manages the etcd members, without an etcd operator.
    pub(super) own_members: bool,
    /// The bug that the controller has.
    pub(super) bug: Option<Bug>,
}

/// What the machine controller and the instances know. Machines are given by uid.
#[derive(Debug, Default)]
pub(super) struct Provider {
    /// The next step of a machine, which is in the queue.
    pub(super) due: BTreeMap<String, Next>,
    /// Machines whose node has been drained.
    pub(super) drained: BTreeSet<String>,
    /// What goes wrong with a machine.
    pub(super) faults: BTreeMap<String, MachineFault>,
    /// What goes wrong with the next new machines.
    pub(super) next_faults: VecDeque<MachineFault>,
    /// Machines whose instance runs.
    pub(super) instances: BTreeSet<String>,
    /// Failure domains without capacity, and the number of faults that keep them so.
    pub(super) full: BTreeMap<String, u32>,
    /// Names of nodes that are not ready, and the number of faults that keep them so.
    pub(super) down: BTreeMap<String, u32>,
}

impl Provider {
    /// What goes wrong with a machine.
    pub(super) fn fault(&self, uid: &str) -> Fault {
        match self.faults.get(uid) {
            Some(MachineFault::Fails) => Fault::Fails("no capacity".to_owned()),
            Some(MachineFault::NeverJoins) => Fault::NeverJoins,
            Some(MachineFault::NeverReady) => Fault::NeverReady,
            Some(MachineFault::Slow) | None => Fault::None,
        }
    }
}

/// What the etcd operator knows. Members are given by the names of their machines.
#[derive(Debug, Default)]
pub(super) struct Etcd {
    pub(super) members: Members,
    /// Members that have been added and have not started.
    pub(super) starting: BTreeSet<String>,
    /// Members that are not healthy although their node is ready, and the number of faults.
    pub(super) sick: BTreeMap<String, u32>,
    /// The member of the bootstrap host is still there.
    pub(super) has_bootstrap: bool,
    /// The removal of the bootstrap host is in the queue.
    pub(super) bootstrap_ends: bool,
    pub(super) unpromoted: u32,
    pub(super) mute: u32,
    /// The report that is stored, if there is one.
    pub(super) reported: Option<String>,
    /// The voters that the stored list has.
    pub(super) listed: BTreeSet<String>,
    /// The next step is in the queue.
    pub(super) is_due: bool,
    /// Etcd lost its quorum, and its restoration is in the queue.
    pub(super) is_restored_soon: bool,
    /// Since when each member has been unhealthy, or has not voted.
    pub(super) wanting_since: BTreeMap<String, i64>,
}

/// What invariants remember beside the objects.
#[derive(Debug, Default)]
pub(super) struct Evidence {
    /// Machines whose instance vanished, whose node was down, or whose hook was removed, until etcd
    /// has the members of all machines again.
    pub(super) disturbed: BTreeSet<String>,
    /// How often a machine was created for a better spread, by the spread before and the zone of
    /// the machine, until the spread is even.
    pub(super) moves: BTreeMap<String, u32>,
    /// Creations that were sent and may still take effect, by name.
    pub(super) in_flight: BTreeMap<String, i64>,
    /// Names of machines whose creation arrived when the ControlPlane was gone.
    pub(super) born_late: BTreeSet<String>,
    /// What the invariants met.
    pub(super) marks: RefCell<Marks>,
}

impl Evidence {
    /// The condition of an invariant held: what it forbids was possible.
    pub(super) fn tests(&self, invariant: &'static str) {
        self.marks.borrow_mut().tested.insert(invariant);
    }
}

/// An event of an actor.
#[derive(Debug)]
pub(super) enum Event {
    /// The next step of a machine, by name and uid.
    Machine(String, String),
    /// The next step of the etcd operator.
    Etcd,
    /// A member that was added starts.
    MemberStarts(String),
    /// A member is healthy again.
    MemberWell(String),
    /// Learners are promoted again.
    Promotes,
    /// The operator reports again.
    Reports,
    /// The bootstrap host is removed.
    BootstrapEnds,
    /// An administrator restores etcd, which lost its quorum.
    EtcdRestored,
    /// A node is ready again.
    NodeBack(String),
    /// A failure domain has capacity again.
    HasCapacity(String),
    /// The controller of health checks looks at the machines.
    Check,
    /// The webhook can be reached again.
    WebhookBack,
}

/// The environment.
#[derive(Debug)]
pub(super) struct Plane {
    pub(super) setup: Setup,
    // Shared with the moments that invariants look at.
    pub(super) machines: Arc<Machines>,
    pub(super) nodes: Arc<Nodes>,
    pub(super) object: Option<Arc<ControlPlane>>,
    pub(super) health_check: Option<Arc<MachineHealthCheck>>,
    pub(super) provider: Provider,
    pub(super) etcd: Etcd,
    pub(super) own_members: OwnMembers,
    /// Until when the controller is called again because it asked for that. It asks for members
    /// without an end where no etcd operator reports them.
    pub(super) polls_until: i64,
    /// A round of the controller of health checks is in the queue.
    pub(super) check_is_due: bool,
    /// The number of faults that keep the webhook out of reach.
    pub(super) outages: u32,
    /// Shared with the admission of the API server.
    pub(super) webhook_is_down: Arc<AtomicBool>,
    /// How often a user changed the template.
    pub(super) edition: u32,
    /// The number of failure domains that users listed last.
    pub(super) zones: usize,
    pub(super) evidence: Evidence,
}

impl Plane {
    /// An environment without objects.
    pub(super) fn empty(setup: &Setup) -> Self {
        Self {
            setup: setup.clone(),
            machines: Arc::default(),
            nodes: Arc::default(),
            object: None,
            health_check: None,
            provider: Provider::default(),
            etcd: Etcd::default(),
            own_members: OwnMembers::new(setup.bug),
            polls_until: i64::MAX,
            check_is_due: false,
            outages: 0,
            webhook_is_down: Arc::default(),
            edition: 0,
            zones: 3,
            evidence: Evidence::default(),
        }
    }

    /// The number of machines that the ControlPlane asks for; that of the installer without one.
    pub(super) fn wanted(&self) -> usize {
        let asked = self.object.as_ref().and_then(|object| object.spec.replicas);
        let asked = asked.and_then(|replicas| usize::try_from(replicas).ok());
        asked.unwrap_or_else(|| usize::try_from(self.setup.installed.max(1)).unwrap_or(1))
    }

    /// The node of a machine.
    pub(super) fn node_of(&self, machine: &Machine) -> Option<&Arc<Node>> {
        self.nodes.get(machine.node_name()?)
    }

    /// Whether the node of a machine is ready.
    pub(super) fn has_ready_node(&self, machine: &str) -> bool {
        let machine = self.machines.get(machine);
        machine
            .and_then(|machine| self.node_of(machine))
            .is_some_and(|node| node.is_ready())
    }

    /// The name of the machine at a position. Positions beyond the last machine wrap around.
    pub(super) fn machine_at(&self, position: usize) -> Option<String> {
        let position = position.checked_rem(self.machines.len())?;
        self.machines.keys().nth(position).cloned()
    }
}
