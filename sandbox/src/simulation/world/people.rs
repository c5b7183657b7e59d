//! What users and the world do by themselves: the acts of a schedule, the first objects, and putting right what was left.

use std::collections::{BTreeMap, BTreeSet};

use capstan::controllers::GENERATED;
use capstan_core::api::machine_openshift_io::machine::Machine;
use capstan_core::cpms::spec::{PAUSED_ROLLOUT, ROLLOUT_LIMIT};
use serde_json::json;

use crate::api::{DeleteOptions, Part, Verb};
use crate::simulation::objects::{self, HOOK, Sort};
use crate::simulation::schedule::{Act, SECOND};
use crate::simulation::truth::{Moment, index, is_of_template, template_type, zone};

use super::etcd::{Ailment, Report};
use super::{Actor, Due, World};

impl World {
    /// The control plane as an installer leaves it.
    pub(super) fn install(&mut self) {
        let replicas = self.schedule.replicas;
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": objects::NAMESPACE}});
        let mut request = crate::api::Request {
            target: crate::api::Target {
                group: String::new(),
                plural: "namespaces".to_owned(),
                namespace: String::new(),
                name: String::new(),
                part: Part::Main,
            },
            verb: Verb::Create(namespace, crate::api::WriteOptions::default()),
            user: capstan_core::model::User::default(),
        };
        let _made = self.send(Actor::Installer, &mut request);
        for name in ["etcd", "control-plane-machine-set"] {
            let _made = self.make(Actor::Installer, Sort::Operator, objects::operator(name));
        }
        for index in 0..replicas {
            let machine = objects::machine(index, "m6i.xlarge");
            let name = format!("{}-{index}", objects::PREFIX);
            let _made = self.make(Actor::Installer, Sort::Machine, machine);
            let _made = self.make(
                Actor::Installer,
                Sort::Node,
                objects::node(&name, &format!("aws:///i-{index}")),
            );
            self.set_ready(&name, "True");
            let status = json!({"status": {"phase": "Running", "nodeRef": {"kind": "Node", "name": name}}});
            let _written = self.patch(Actor::Installer, Sort::Machine, &name, Part::Status, status);
            if let Some(machine) = self.machines.get(&name) {
                let uid = machine.metadata.uid().to_owned();
                self.provider.instances.insert(uid);
            }
        }
        self.etcd.members = self.machines.keys().cloned().collect();
        self.report_etcd(Report::Well);
        if self.schedule.state != "None" {
            self.create_set(Actor::Installer);
        }
    }

    fn instance_type(&self) -> String {
        format!("m6i.{}xlarge", self.edition + 1)
    }

    fn create_set(&mut self, actor: Actor) {
        let instance_type = if self.edition == 0 {
            "m6i.xlarge".to_owned()
        } else {
            self.instance_type()
        };
        let state = if self.schedule.state == "None" {
            "Inactive"
        } else {
            self.schedule.state
        };
        let set = objects::set(self.schedule.replicas, self.schedule.strategy, state, &instance_type);
        let _made = self.make(actor, Sort::Set, set);
    }

    fn edit_set(&mut self, patch: serde_json::Value) {
        let _written = self.patch(Actor::User, Sort::Set, "cluster", Part::Main, patch);
    }

    fn annotate_set(&mut self, annotation: &str, value: Option<&str>) {
        self.edit_set(json!({"metadata": {"annotations": {annotation: value}}}));
    }

    /// The which-th machine that is there.
    fn machine_at(&self, position: usize) -> Option<String> {
        let names: Vec<&String> = self.machines.keys().collect();
        let position = position.checked_rem(names.len())?;
        names.get(position).map(|name| (*name).clone())
    }

    pub(super) fn act(&mut self, act: &Act) {
        self.trace(|| format!("-- {act:?}"));
        match act {
            Act::EditTemplate => {
                self.edition += 1;
                let value = objects::provider_spec(&self.instance_type(), None);
                self.edit_set(json!({"spec": {"template": {"machines_v1beta1_machine_openshift_io": {
                    "spec": {"providerSpec": {"value": value}}}}}}));
            }
            Act::Domains(count) => {
                self.truth.rezoned = true;
                let domains = objects::domains(*count);
                self.edit_set(json!({"spec": {"template": {"machines_v1beta1_machine_openshift_io": {"failureDomains": domains}}}}));
            }
            Act::Pause(on) => self.annotate_set(PAUSED_ROLLOUT, on.then_some("true")),
            Act::Limit(on) => self.annotate_set(ROLLOUT_LIMIT, on.then_some("1")),
            Act::Delete(first, count) => {
                let names: Vec<String> = (*first..first + count).filter_map(|at| self.machine_at(at)).collect();
                for name in names {
                    self.truth.deleted_by_user(&name);
                    let _gone = self.remove(Actor::User, Sort::Machine, &name);
                }
            }
            Act::DeleteSet(how) => {
                let options = DeleteOptions {
                    propagation: Some(*how),
                    ..DeleteOptions::default()
                };
                let _gone = self.request(Actor::User, Sort::Set, "cluster", Part::Main, Verb::Delete(options));
            }
            Act::CreateSet => self.create_set(Actor::User),
            Act::Strategy(name) => self.edit_set(json!({"spec": {"strategy": {"type": name}}})),
            Act::RemoveHook(position) => {
                if let Some(name) = self.machine_at(*position) {
                    self.truth.unhooked = true;
                    let patch = json!({"spec": {"lifecycleHooks": null}});
                    let _written = self.patch(Actor::User, Sort::Machine, &name, Part::Main, patch);
                }
            }
            Act::Deselect(position) => {
                if let Some(name) = self.machine_at(*position) {
                    let patch =
                        json!({"metadata": {"labels": {"machine.openshift.io/cluster-api-machine-type": null}}});
                    let _written = self.patch(Actor::User, Sort::Machine, &name, Part::Main, patch);
                }
            }
            Act::Disown(position) => {
                if let Some(name) = self.machine_at(*position) {
                    let patch = json!({"metadata": {"ownerReferences": null}});
                    let _written = self.patch(Actor::User, Sort::Machine, &name, Part::Main, patch);
                }
            }
            Act::Touch(position) => {
                if let Some(name) = self.machine_at(*position) {
                    let patch = json!({"metadata": {"annotations": {"example.com/seen": self.now.to_string()}}});
                    let _written = self.patch(Actor::User, Sort::Machine, &name, Part::Main, patch);
                }
            }
            Act::TouchSet => self.annotate_set("example.com/seen", Some("yes")),
            Act::Activate => self.edit_set(json!({"spec": {"state": "Active"}})),
            Act::Forbidden => {
                self.edit_set(json!({"spec": {"state": "Inactive"}}));
                self.edit_set(json!({"spec": {"replicas": if self.schedule.replicas == 3 { 5 } else { 3 }}}));
            }
            Act::Remediate => {
                let away: Vec<String> = self
                    .machines
                    .iter()
                    .filter(|(_, machine)| {
                        let node = machine.node_name().map(|node| self.nodes.get(node));
                        !machine.metadata.is_deleting()
                            && node.is_some_and(|node| !node.is_some_and(|node| node.is_ready()))
                    })
                    .map(|(name, _)| name.clone())
                    .collect();
                for name in away {
                    self.truth.deleted_by_user(&name);
                    let _gone = self.remove(Actor::User, Sort::Machine, &name);
                }
            }
            Act::Freeze(replica, sort, time) => self.freeze(*replica, *sort, *time),
            Act::Relist(replica, sort, behind) => self.relist(*replica, *sort, *behind),
            Act::Kill(replica) => self.kill(*replica),
            Act::Hang(replica, time) => self.hang(*replica, *time),
            Act::Lead(first, second) => self.lead([*first, *second]),
            Act::Jump(replica, time) => self.jump(*replica, *time),
            Act::NodeDown(position, time) => {
                let node = self
                    .machine_at(*position)
                    .and_then(|name| self.machines.get(&name)?.node_name().map(str::to_owned));
                if let Some(node) = node {
                    self.node_down(&node, *time);
                }
            }
            Act::InstanceGone(position) => {
                if let Some(name) = self.machine_at(*position) {
                    self.instance_gone(&name);
                }
            }
            Act::Machine(trouble) => self.provider.coming.push_back(*trouble),
            Act::Stranger(time) => {
                let name = format!("stranger-{}", self.now);
                let _made = self.make(Actor::User, Sort::Node, objects::node(&name, "aws:///stranger"));
                self.set_ready(&name, "True");
                self.after_ms(*time, Due::StrangerGone(name));
            }
            Act::EtcdSick(time) => self.etcd_ails(Ailment::Sick, *time),
            Act::Unpromoted(time) => self.etcd_ails(Ailment::Unpromoted, *time),
            Act::EtcdMute(time) => self.etcd_ails(Ailment::Mute, *time),
            Act::GarbageLate(time) => self.garbage_late = *time,
            Act::EditMachine(position) => {
                if let Some(name) = self.machine_at(*position) {
                    self.handmade += 1;
                    let instance_type = format!("m7i.{}xlarge", self.handmade);
                    let patch = json!({"spec": {"providerSpec": {"value": {"instanceType": instance_type}}}});
                    let _written = self.patch(Actor::User, Sort::Machine, &name, Part::Main, patch);
                }
            }
            Act::AddMachine(position) => self.add_machine(*position),
            Act::Unmark => self.annotate_set(GENERATED, None),
            Act::Denied(sort, time) => {
                let until = self.now + time;
                if let Some(denied) = self.denied.get_mut(sort.position()) {
                    *denied = until.max(*denied);
                }
            }
            Act::WebhookDown(time) => self.webhook_down(*time),
            Act::Definition(keeps_machines) => self.define(*keeps_machines),
        }
    }

    /// A machine of the template, as a person makes it, or as today's operator does: it says nothing of what it replaces.
    fn add_machine(&mut self, position: usize) {
        let Some(replaced) = self.machine_at(position) else {
            return;
        };
        let Some(index) = index(&replaced) else { return };
        self.handmade += 1;
        let name = format!("{}-h{:04}-{index}", objects::PREFIX, self.handmade);
        let zone = self.machines.get(&replaced).and_then(|machine| zone(machine));
        let type_ = self
            .set
            .as_ref()
            .and_then(|set| template_type(set))
            .unwrap_or("m6i.xlarge");
        let machine = objects::new_machine(&name, type_, zone);
        self.truth.made_by_hand.insert(name);
        let _made = self.make(Actor::User, Sort::Machine, machine);
    }

    pub(super) fn stranger_gone(&mut self, name: &str) {
        let _gone = self.remove(Actor::User, Sort::Node, name);
    }

    /// Puts right what a person is advised to put right. Returns whether there was anything.
    pub(super) fn put_right(&mut self) -> bool {
        self.calm = true;
        self.garbage_late = 0;
        let mut any = self.settle_leader();
        self.calm_machines();
        any |= !self.queue.is_empty();
        if let Some(set) = self.set.clone() {
            for annotation in [PAUSED_ROLLOUT, ROLLOUT_LIMIT] {
                if set.metadata.annotations.contains_key(annotation) {
                    self.annotate_set(annotation, None);
                    any = true;
                }
            }
        }
        for name in self.provider.down.keys().cloned().collect::<Vec<_>>() {
            self.node_back(&name);
            any = true;
        }
        // A set that does not act replaces nothing.
        let acts = self.moment().acts();
        let names: Vec<String> = self.machines.keys().cloned().collect();
        for name in names {
            let Some(machine) = self.machines.get(&name).cloned() else {
                continue;
            };
            let labelled = machine
                .metadata
                .labels
                .contains_key("machine.openshift.io/cluster-api-machine-type");
            if !labelled && self.is_superfluous(&name, &machine) {
                // With its labels back it would be the second of its index, and Capstan would ask for one of them to go.
                self.trace(|| format!("-- as advised: machine {name} is deleted, its index has another"));
                self.truth.deleted_by_user(&name);
                let _gone = self.remove(Actor::User, Sort::Machine, &name);
                return true;
            }
            if !labelled {
                let labels = json!({"metadata": {"labels": objects::labels()}});
                let _written = self.patch(Actor::User, Sort::Machine, &name, Part::Main, labels);
                any = true;
            }
            let lost = machine.node_name().is_some_and(|node| !self.nodes.contains_key(node));
            let failed = machine.phase() == Some("Failed");
            if (lost || failed) && !machine.metadata.is_deleting() && acts {
                self.trace(|| format!("-- as advised: machine {name} is deleted to be made again"));
                self.truth.deleted_by_user(&name);
                let _gone = self.remove(Actor::User, Sort::Machine, &name);
                return true;
            }
            if machine.metadata.is_deleting() && !acts {
                // Nobody replaces it any more, so its hook waits for ever: its owner lets it go, or makes a new set.
                let hooked = machine
                    .spec
                    .lifecycle_hooks
                    .as_ref()
                    .is_some_and(|hooks| hooks.pre_drain.iter().any(|hook| hook.name == HOOK));
                if hooked {
                    self.truth.unhooked = true;
                    self.etcd.forget(&name);
                    let patch = json!({"spec": {"lifecycleHooks": null}});
                    let _written = self.patch(Actor::User, Sort::Machine, &name, Part::Main, patch);
                    any = true;
                }
            }
        }
        any |= acts && self.delete_excess();
        if any {
            self.now += SECOND;
        }
        any
    }

    /// Of machines that one index has too many of, all that the template asks for, a person deletes one: the one that serves
    /// least, and of equals the newest.
    fn delete_excess(&mut self) -> bool {
        let Some(set) = self.set.clone() else { return false };
        let moment = self.moment();
        let mut alike: BTreeMap<Option<u32>, Vec<(bool, String)>> = BTreeMap::new();
        for (name, machine) in self.machines.iter() {
            let stays = Moment::selected(machine) && !machine.metadata.is_deleting();
            if stays && is_of_template(&set, machine) {
                let of_index = alike.entry(index(name)).or_default();
                of_index.push((moment.is_ready(machine), name.clone()));
            }
        }
        let made = |name: &str| self.machines.get(name).and_then(|one| one.metadata.creation_timestamp);
        let mut excess = alike.into_values().filter(|of_index| of_index.len() > 1);
        let chosen = excess.next().and_then(|of_index| {
            let worst = of_index
                .into_iter()
                .min_by_key(|(ready, name)| (*ready, std::cmp::Reverse(made(name))));
            worst.map(|(_, name)| name)
        });
        let Some(name) = chosen else { return false };
        self.trace(|| format!("-- as advised: machine {name} is deleted, its index has another"));
        self.truth.deleted_by_user(&name);
        let _gone = self.remove(Actor::User, Sort::Machine, &name);
        true
    }

    /// Whether a machine without the set's labels can go for good: the set has a ready machine for each replica without it,
    /// one of them in its index. Where one is missing, etcd needs the member that runs on it, and the person gives it back.
    fn is_superfluous(&self, name: &str, machine: &Machine) -> bool {
        let moment = self.moment();
        let serving: BTreeSet<Option<u32>> = self
            .machines
            .iter()
            .filter(|(_, one)| Moment::selected(one) && !one.metadata.is_deleting() && moment.is_ready(one))
            .map(|(other, _)| index(other))
            .collect();
        self.set.is_some()
            && !machine.metadata.is_deleting()
            && serving.len() >= self.truth.replicas
            && serving.contains(&index(name))
    }
}
