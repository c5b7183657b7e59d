//! The acts of the schedule: actions of users, and faults of the cluster.

use capstan::controllers::GENERATED;
use capstan_core::cpms::spec::{PAUSED_ROLLOUT, ROLLOUT_LIMIT};
use capstan_core::model::Propagation;
use serde_json::{Value, json};

use crate::api::{DeleteOptions, Part, Verb};
use crate::simulation::engine::world::{Actor, World};
use crate::simulation::foreign::machine_webhook;
use crate::simulation::invariants::moment::{index_of, template_type, template_value, zone};
use crate::simulation::machine_api::act::{ClusterFault, UserAction};
use crate::simulation::machine_api::neighbours::foreign_node;
use crate::simulation::machine_api::objects::StatusFields;
use crate::simulation::machine_api::state::{Ailment, ControlPlane, Event};
use crate::simulation::machine_api::{kinds, objects};

const USER: Actor = Actor::Named("user");
/// The first characters of the instance types that a user writes to a machine.
pub(super) const EDITED: &str = "m7i.";
/// A label of the template that no controller reads.
const EDITED_LABEL: &str = "example.com/version";
/// An annotation that no controller reads.
const UNRELATED: &str = "example.com/seen";

impl ControlPlane {
    /// Adds the field that the webhook of another component drops for a time, once a user has
    /// changed the template.
    pub(super) fn add_key(&self, provider_spec: &mut Value) {
        let is_used = self.setup.neighbours.webhooks && self.edition > 0;
        if let Some(fields) = provider_spec.as_object_mut().filter(|_| is_used) {
            let key = format!("key-{}", self.edition);
            fields.insert(objects::DROPPED.to_owned(), key.into());
        }
    }
}

/// One part of the recorded vocabulary, or a combination of two: parts that the webhooks store, and
/// that leave alone what the invariants compare.
fn recorded_fields(number: usize) -> Value {
    let compared = ["instanceType", "InstanceType", objects::DROPPED];
    let is_stored = |part: &Value| {
        let mut value = objects::provider_spec("m6i.xlarge", None);
        json_patch::merge(&mut value, part);
        machine_webhook::create(&objects::labels(), &value).stored.is_some()
    };
    let is_free = |part: &Value| compared.iter().all(|name| part.get(name).is_none());
    let all = machine_webhook::vocabulary().into_iter();
    let parts: Vec<Value> = all.filter(|part| is_free(part) && is_stored(part)).collect();
    let part = |number: usize| {
        let position = number.checked_rem(parts.len())?;
        parts.get(position).cloned()
    };
    let mut fields = part(number).unwrap_or_default();
    // Every second number combines two parts.
    let second = number.checked_div(parts.len()).unwrap_or_default();
    if let Some(other) = part(second).filter(|_| second % 2 == 1) {
        json_patch::merge(&mut fields, &other);
    }
    fields
}

impl World<ControlPlane> {
    /// Executes an action of a user.
    pub(crate) fn act_as_user(&mut self, action: &UserAction) {
        if !self.environment.has_quorum() {
            self.trace(|| "   no API server answers the user".to_owned());
            return;
        }
        match action {
            UserAction::EditTemplate => self.edit_template(),
            UserAction::Domains(count) => {
                self.environment.evidence.rezoned = true;
                self.patch_template(&json!({"failureDomains": objects::domains(*count)}));
            }
            UserAction::Pause(on) => self.annotate_set(PAUSED_ROLLOUT, on.then_some("true")),
            UserAction::Limit(on) => self.annotate_set(ROLLOUT_LIMIT, on.then_some("1")),
            UserAction::Delete(first, count) => {
                let positions = *first..first + count;
                let names: Vec<String> = positions.filter_map(|at| self.environment.machine_at(at)).collect();
                names.iter().for_each(|name| self.delete_machine(name));
            }
            UserAction::DeleteSet(propagation) => self.delete_set(*propagation),
            UserAction::CreateSet => self.create_set(USER),
            UserAction::Strategy(name) => self.patch_set(json!({"spec": {"strategy": {"type": name}}})),
            UserAction::RemoveHook(position) => {
                let name = self.environment.machine_at(*position);
                self.environment.evidence.unhooked.extend(name);
                self.patch_machine_at(*position, json!({"spec": {"lifecycleHooks": null}}));
            }
            UserAction::Deselect(position) => {
                self.patch_machine_at(*position, json!({"metadata": {"labels": {objects::SELECTED: null}}}));
            }
            UserAction::Disown(position) => {
                self.patch_machine_at(*position, json!({"metadata": {"ownerReferences": null}}));
            }
            UserAction::Touch(position) => {
                let now = self.now().to_string();
                self.patch_machine_at(*position, json!({"metadata": {"annotations": {UNRELATED: now}}}));
            }
            UserAction::TouchSet => self.annotate_set(UNRELATED, Some("yes")),
            UserAction::Activate => self.patch_set(json!({"spec": {"state": "Active"}})),
            UserAction::Forbidden => {
                let replicas = if self.environment.setup.replicas == 3 { 5 } else { 3 };
                self.patch_set(json!({"spec": {"state": "Inactive"}}));
                self.patch_set(json!({"spec": {"replicas": replicas}}));
            }
            UserAction::Remediate => self.remediate(),
            UserAction::EditMachine(position) => self.edit_machine(*position),
            UserAction::AddMachine(position) => self.add_machine(*position),
            UserAction::ForceDelete(index) => self.force_delete(*index),
            UserAction::EditLabels => self.edit_labels(),
            UserAction::EditImage => {
                let value = json!({"ami": {"id": format!("ami-{}", self.now())}});
                self.patch_template(&json!({"spec": {"providerSpec": {"value": value}}}));
            }
            UserAction::EditFields(number) => self.edit_fields(&recorded_fields(*number)),
            UserAction::Unmark => self.annotate_set(GENERATED, None),
        }
    }

    /// Causes a fault of the cluster.
    pub(crate) fn inject(&mut self, fault: &ClusterFault) {
        match fault {
            ClusterFault::NodeDown(position, time) => {
                let environment = &self.environment;
                let machine = environment.machine_at(*position);
                let machine = machine.and_then(|name| environment.machines.get(&name).cloned());
                if let Some(node) = machine.as_ref().and_then(|machine| machine.node_name()) {
                    self.node_down(node, *time);
                }
            }
            ClusterFault::InstanceGone(position) => {
                if let Some(name) = self.environment.machine_at(*position) {
                    self.instance_gone(&name);
                }
            }
            ClusterFault::Machine(fault) => self.environment.provider.next_faults.push_back(*fault),
            ClusterFault::Stranger(time) => {
                let name = format!("stranger-{}", self.now());
                self.create_unmanaged_node(&name);
                self.schedule(*time, Event::StrangerGone(name));
            }
            ClusterFault::EtcdSick(time) => self.etcd_ails(Ailment::Sick, *time),
            ClusterFault::Unpromoted(time) => self.etcd_ails(Ailment::Unpromoted, *time),
            ClusterFault::EtcdMute(time) => self.etcd_ails(Ailment::Mute, *time),
            ClusterFault::WebhookDown(time) => self.webhook_down(*time),
            ClusterFault::Refusals(time) => self.refuse_machines(*time),
            ClusterFault::Drops(time) => self.drop_field(*time),
            ClusterFault::ForeignNode => {
                let name = foreign_node(self.now());
                self.create_unmanaged_node(&name);
            }
            ClusterFault::Definition(keeps_machines) => self.exchange_definition(*keeps_machines),
        }
    }

    /// Creates a ready control plane node that belongs to no machine.
    fn create_unmanaged_node(&mut self, name: &str) {
        let node = objects::node(name, "aws:///stranger");
        let _made = self.create(USER, &kinds::node(name), node);
        self.set_ready(name, "True");
    }

    fn patch_set(&mut self, patch: Value) {
        let _written = self.patch(USER, &kinds::set(), Part::Main, patch);
    }

    fn patch_template(&mut self, template: &Value) {
        self.patch_set(json!({"spec": {"template": {"machines_v1beta1_machine_openshift_io": template}}}));
    }

    fn edit_template(&mut self) {
        self.environment.edition += 1;
        let mut value = objects::provider_spec(&self.current_type(), None);
        self.environment.add_key(&mut value);
        self.patch_template(&json!({"spec": {"providerSpec": {"value": value}}}));
    }

    /// Changes fields of the template, and the instance type.
    fn edit_fields(&mut self, fields: &Value) {
        self.environment.edition += 1;
        let mut value = objects::provider_spec(&self.current_type(), None);
        self.environment.add_key(&mut value);
        // A patch keeps null, which removes a field of the template.
        if let (Some(value), Some(fields)) = (value.as_object_mut(), fields.as_object()) {
            for (name, field) in fields {
                match (value.get_mut(name), field) {
                    (Some(Value::Object(old)), Value::Object(new)) => old.extend(new.clone()),
                    _ => drop(value.insert(name.clone(), field.clone())),
                }
            }
        }
        self.patch_template(&json!({"spec": {"providerSpec": {"value": value}}}));
    }

    fn edit_labels(&mut self) {
        self.environment.relabelled += 1;
        let value = format!("v{}", self.environment.relabelled);
        self.patch_template(&json!({"metadata": {"labels": {EDITED_LABEL: value}}}));
    }

    /// Deletes the machine of an index at once, with its node and its instance.
    fn force_delete(&mut self, index: u32) {
        let mut machines = self.environment.machines.values();
        let Some(machine) = machines.find(|machine| index_of(machine) == Some(index)).cloned() else {
            return;
        };
        let name = machine.metadata.name();
        // The status may not name the node of the machine yet.
        let named = || self.environment.nodes.get(name);
        let node = self.environment.node_of(&machine);
        let node = node.or_else(|| self.environment.node_of_instance(machine.metadata.uid()));
        let node = node.or_else(named);
        let node = node.map(|node| node.metadata.name().to_owned());
        let live = self.environment.machines.values();
        let mut others = live.filter(|other| other.metadata.name() != name && !other.metadata.is_deleting());
        // Without a ready node there is no API server, and only a backup helps.
        if !others.any(|other| self.environment.has_ready_node(other.metadata.name())) {
            return;
        }
        self.environment.evidence.vanished.insert(name.to_owned());
        self.environment.provider.instances.remove(machine.metadata.uid());
        self.environment.etcd.members.remove(name);
        self.patch_machine(name, json!({"metadata": {"finalizers": null}}));
        self.delete_machine(name);
        if let Some(node) = node {
            let _gone = self.delete(USER, &kinds::node(&node));
        }
    }

    /// Sets an annotation of the set, or removes it.
    pub(crate) fn annotate_set(&mut self, annotation: &str, value: Option<&str>) {
        self.patch_set(json!({"metadata": {"annotations": {annotation: value}}}));
    }

    fn delete_set(&mut self, propagation: Propagation) {
        let options = DeleteOptions {
            propagation: Some(propagation),
            ..DeleteOptions::default()
        };
        let _gone = self.request(USER, &kinds::set(), Part::Main, Verb::Delete(options));
    }

    /// Merges a patch into a machine.
    pub(crate) fn patch_machine(&mut self, name: &str, patch: Value) {
        let _written = self.patch(USER, &kinds::machine(name), Part::Main, patch);
    }

    fn patch_machine_at(&mut self, position: usize, patch: Value) {
        if let Some(name) = self.environment.machine_at(position) {
            self.patch_machine(&name, patch);
        }
    }

    /// Deletes a machine.
    pub(crate) fn delete_machine(&mut self, name: &str) {
        self.environment.evidence.deleted_by_user.insert(name.to_owned());
        if self.delete(USER, &kinds::machine(name)).is_err() {
            self.environment.evidence.deleted_by_user.remove(name);
        }
    }

    /// The machine health check deletes every machine that has a node, and the node is not ready or
    /// gone.
    fn remediate(&mut self) {
        let machines = self.environment.machines.iter();
        let unhealthy = machines.filter(|(name, machine)| {
            let has_node = machine.node_name().is_some();
            !machine.metadata.is_deleting() && has_node && !self.environment.has_ready_node(name)
        });
        let names: Vec<String> = unhealthy.map(|(name, _)| name.clone()).collect();
        names.iter().for_each(|name| self.delete_machine(name));
    }

    fn edit_machine(&mut self, position: usize) {
        if let Some(name) = self.environment.machine_at(position) {
            self.environment.handmade += 1;
            let instance_type = format!("{EDITED}{}xlarge", self.environment.handmade);
            let value = json!({"instanceType": instance_type});
            self.patch_machine(&name, json!({"spec": {"providerSpec": {"value": value}}}));
        }
    }

    /// Creates a machine of the template for the index of another one. It does not name the machine
    /// that it replaces.
    fn add_machine(&mut self, position: usize) {
        let environment = &mut self.environment;
        let Some(replaced) = environment.machine_at(position) else {
            return;
        };
        let old = environment.machines.get(&replaced);
        let Some(index) = old.and_then(|machine| index_of(machine)) else {
            return;
        };
        environment.handmade += 1;
        let name = format!("{}-h{:04}-{index}", objects::PREFIX, environment.handmade);
        let zone = environment.machines.get(&replaced).and_then(|machine| zone(machine));
        let set = environment.set.as_ref();
        let type_ = set.and_then(|set| template_type(set)).unwrap_or("m6i.xlarge");
        let key = set.and_then(|set| template_value(set)?.get(objects::DROPPED)).cloned();
        let mut machine = objects::new_machine(&name, type_, zone);
        let value = machine.pointer_mut("/spec/providerSpec/value");
        if let (Some(value), Some(key)) = (value.and_then(Value::as_object_mut), key) {
            value.insert(objects::DROPPED.to_owned(), key);
        }
        environment.evidence.made_by_hand.insert(name.clone());
        let _made = self.create(USER, &kinds::machine(&name), machine);
    }

    /// A user deletes a node without a machine.
    pub(crate) fn stranger_gone(&mut self, name: &str) {
        let _gone = self.delete(USER, &kinds::node(name));
    }

    /// Exchanges the CRD of the set: for one with the field `status.machines`, or for one without.
    pub(crate) fn exchange_definition(&mut self, keeps_machines: bool) {
        let fields = StatusFields {
            machines: keeps_machines,
            selector: !self.environment.setup.neighbours.prunes_selector,
        };
        if let Ok(kinds) = objects::kinds(fields) {
            self.environment.keeps_machines = keeps_machines;
            self.serve(kinds);
        }
    }
}
