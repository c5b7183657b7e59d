//! The installer: it creates the control plane that a run begins with, and sets.

use capstan_core::api::config_openshift_io::cluster_operator;
use serde_json::json;

use crate::api::Part;
use crate::simulation::engine::world::{Actor, World};
use crate::simulation::machine_api::neighbours::{is_of_other_cluster, workers};
use crate::simulation::machine_api::state::ControlPlane;
use crate::simulation::machine_api::{kinds, objects};

/// The instance type that machines and template have at first.
const FIRST_TYPE: &str = "m6i.xlarge";

impl World<ControlPlane> {
    /// Creates machines with ready nodes, etcd members, and the set.
    pub(crate) fn install(&mut self) {
        self.create_namespace(kinds::NAMESPACE);
        for name in [cluster_operator::ETCD, cluster_operator::NAME] {
            let _made = self.create(Actor::Installer, &kinds::operator(name), objects::operator(name));
        }
        let neighbours = self.environment.setup.neighbours;
        for position in 0..self.environment.setup.replicas {
            self.install_machine(position, &neighbours.names.name(position));
        }
        self.install_workers(false);
        self.environment.etcd.members.voters = self.environment.machines.keys().cloned().collect();
        self.report_members();
        if self.environment.setup.state.is_some() {
            self.create_set(Actor::Installer);
        }
        // Admission refuses a set beside a control plane machine that its selector does not match.
        self.install_workers(true);
    }

    /// Creates the machines that are not control plane machines of this cluster: workers, or the
    /// machine of another cluster.
    fn install_workers(&mut self, of_other_cluster: bool) {
        let wanted = self.environment.setup.neighbours.workers;
        for name in workers().iter().filter(|_| wanted) {
            if is_of_other_cluster(name) == of_other_cluster {
                let worker = objects::worker(name, of_other_cluster);
                let _made = self.create(Actor::Installer, &kinds::machine(name), worker);
            }
        }
    }

    fn install_machine(&mut self, position: u32, name: &str) {
        let (machine, node) = (kinds::machine(name), kinds::node(name));
        let _made = self.create(Actor::Installer, &machine, objects::machine(name, position, FIRST_TYPE));
        let object = objects::node(name, &format!("aws:///i-{position}"));
        let _made = self.create(Actor::Installer, &node, object);
        self.set_ready(name, "True");
        let status = json!({"status": {"phase": "Running", "nodeRef": {"kind": "Node", "name": name}}});
        let _written = self.patch(Actor::Installer, &machine, Part::Status, status);
        let environment = &mut self.environment;
        if let Some(machine) = environment.machines.get(name) {
            let uid = machine.metadata.uid().to_owned();
            environment.provider.instances.insert(uid);
        }
    }

    /// The instance type of the template after the last edit.
    pub(crate) fn current_type(&self) -> String {
        match self.environment.edition {
            0 => FIRST_TYPE.to_owned(),
            edition => format!("m6i.{}xlarge", edition + 1),
        }
    }

    /// Creates the set.
    pub(crate) fn create_set(&mut self, actor: Actor) {
        let setup = &self.environment.setup;
        let state = setup.state.unwrap_or("Inactive");
        let mut set = objects::set(setup.replicas, setup.strategy, state, &self.current_type());
        let value = "/spec/template/machines_v1beta1_machine_openshift_io/spec/providerSpec/value";
        if let Some(value) = set.pointer_mut(value) {
            self.environment.add_key(value);
        }
        if let (Some(selector), true) = (set.pointer_mut("/spec/selector"), setup.neighbours.workers) {
            *selector = objects::wide_selector();
        }
        let _made = self.create(actor, &kinds::set(), set);
    }
}
