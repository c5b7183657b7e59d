//! The acts of the schedule: actions of users, and faults of the cluster.

use std::sync::atomic::Ordering;

use capstan_core::control_plane::action::REPLACED;
use capstan_core::control_plane::plan::REBALANCING;
use capstan_core::control_plane::spec::{ACKNOWLEDGED, RISK};
use capstan_core::cpms::domains::{FailureDomain, Platform};
use capstan_core::cpms::rules::ACKNOWLEDGE as ACCEPTED_DOMAINS;
use capstan_core::model::Propagation;
use serde_json::{Value, json};

use crate::api::{DeleteOptions, Part, Verb};
use crate::simulation::engine::schedule::SECOND;
use crate::simulation::engine::world::{Actor, World};

use super::act::Act;
use super::state::{Event, Plane};
use super::{kinds, objects};

pub(super) const USER: Actor = Actor::Named("user");
/// An annotation that no controller reads.
const UNRELATED: &str = "example.com/seen";
/// The uid of a controller that does not exist in the simulation.
pub(super) const FOREIGN: &str = "11111111-2222-3333-4444-555555555555";

impl World<Plane> {
    /// Executes an act.
    pub(super) fn perform_act(&mut self, act: &Act) {
        match act {
            Act::NodeDown(position, time) => self.of_machine(*position, |world, name| world.node_down(name, *time)),
            Act::InstanceGone(position) => self.of_machine(*position, Self::instance_gone),
            Act::NoCapacity(position, time) => self.no_capacity(*position, *time),
            Act::Machine(fault) => self.environment.provider.next_faults.push_back(*fault),
            Act::MemberSick(position, time) => {
                self.of_machine(*position, |world, name| world.member_ails(name, *time));
            }
            Act::Unpromoted(time) => {
                self.environment.etcd.unpromoted += 1;
                self.schedule(*time, Event::Promotes);
                self.plan_etcd();
            }
            Act::Mute(time) => {
                self.environment.etcd.mute += 1;
                self.schedule(*time, Event::Reports);
                self.plan_etcd();
            }
            Act::WebhookDown(time) => {
                self.environment.outages += 1;
                self.environment.webhook_is_down.store(true, Ordering::Relaxed);
                self.schedule(*time, Event::WebhookBack);
            }
            _ if !self.environment.has_quorum() => self.trace(|| "   no API server answers the user".to_owned()),
            action => self.act_as_user(action),
        }
    }

    fn act_as_user(&mut self, action: &Act) {
        match action {
            Act::Scale(replicas) => self.edit(json!({"spec": {"replicas": replicas}})),
            Act::EditShape => {
                self.environment.edition += 1;
                let value = objects::template(self.environment.edition);
                self.edit(json!({"spec": {"providerSpec": {"value": value}}}));
            }
            Act::EditBoth(replicas) => {
                self.environment.edition += 1;
                let value = objects::template(self.environment.edition);
                self.edit(json!({"spec": {"replicas": replicas, "providerSpec": {"value": value}}}));
            }
            Act::Domains(count) => {
                self.environment.zones = *count;
                let domains = objects::domains(*count);
                let listed = domains.get("aws").and_then(Value::as_array).into_iter().flatten();
                let labels: Vec<String> = listed
                    .map(|entry| FailureDomain::new(Platform::Aws, entry.clone()).label())
                    .collect();
                self.edit(
                    json!({"metadata": {"annotations": {(ACCEPTED_DOMAINS): labels.join(",")}},
                    "spec": {"failureDomains": domains}}),
                );
            }
            Act::Repairs(on) => self.edit(json!({"spec": {"enableautorepair": on}})),
            Act::Acknowledge => self.acknowledge(),
            Act::Delete(first, count) => {
                let names: Vec<String> = (0..*count)
                    .filter_map(|more| self.environment.machine_at(first + more))
                    .collect();
                for name in &names {
                    self.note_unprotected(name);
                    self.delete_machine(name);
                }
            }
            Act::WeakenHealthCheck => {
                let patch = json!({"spec": {"maxUnhealthy": "100%", "unhealthyConditions": [
                    {"type": "Ready", "status": "False", "timeout": "1s"}]}});
                let _written = self.patch(USER, &kinds::health_check(), Part::Main, patch);
            }
            Act::DeleteHealthCheck => drop(self.delete(USER, &kinds::health_check())),
            Act::DeleteObject(propagation) => self.delete_object(*propagation),
            Act::CreateObject(replicas) => self.create_object(USER, *replicas, true),
            Act::Deselect(position) => {
                let patch = json!({"metadata": {"labels": {(objects::SELECTED): null}}});
                self.patch_machine_at(*position, patch);
            }
            Act::Disown(position) => self.patch_machine_at(*position, json!({"metadata": {"ownerReferences": null}})),
            Act::Take(position) => {
                let owner = json!({"apiVersion": "example.com/v1", "kind": "Fleet", "name": "fleet", "uid": FOREIGN,
                    "controller": true});
                self.patch_machine_at(*position, json!({"metadata": {"ownerReferences": [owner]}}));
            }
            Act::Unmark(position) => {
                self.patch_machine_at(*position, json!({"metadata": {"annotations": {(REPLACED): null}}}));
            }
            Act::Touch(position) => {
                let seen = self.now().to_string();
                self.patch_machine_at(*position, json!({"metadata": {"annotations": {(UNRELATED): seen}}}));
            }
            Act::RemoveHook(position) => self.of_machine(*position, |world, name| {
                world.environment.evidence.disturbed.insert(name.to_owned());
                world.patch_machine(name, json!({"spec": {"lifecycleHooks": null}}));
            }),
            _ => {}
        }
    }

    /// A user deletes a machine before the controller of the members has set its hook: nothing
    /// holds the machine until its member leaves.
    fn note_unprotected(&mut self, name: &str) {
        let environment = &mut self.environment;
        let machine = environment.machines.get(name);
        let is_hooked = machine.is_none_or(|machine| environment.is_hooked(machine));
        if environment.setup.own_members && !is_hooked {
            environment.evidence.disturbed.insert(name.to_owned());
        }
    }

    fn of_machine(&mut self, position: usize, act: impl FnOnce(&mut Self, &str)) {
        if let Some(name) = self.environment.machine_at(position) {
            act(self, &name);
        }
    }

    fn edit(&mut self, patch: Value) {
        let _written = self.patch(USER, &kinds::control_plane(), Part::Main, patch);
    }

    /// Accepts the replacement of the only machine.
    pub(super) fn acknowledge(&mut self) {
        self.edit(json!({"metadata": {"annotations": {(ACKNOWLEDGED): RISK}}}));
    }

    /// Lets the controller repeat its attempts to improve the spread.
    pub(super) fn repeat_moves(&mut self) {
        self.environment.evidence.moves.clear();
        self.edit(json!({"metadata": {"annotations": {(REBALANCING): null}}}));
    }

    /// Creates the ControlPlane.
    pub(super) fn create_object(&mut self, actor: Actor, replicas: u32, repairs: bool) {
        let (edition, zones) = (self.environment.edition, self.environment.zones);
        let object = objects::control_plane(replicas, repairs, edition, zones);
        let _made = self.create(actor, &kinds::control_plane(), object);
    }

    fn delete_object(&mut self, propagation: Propagation) {
        let options = DeleteOptions {
            propagation: Some(propagation),
            ..DeleteOptions::default()
        };
        let _gone = self.request(USER, &kinds::control_plane(), Part::Main, Verb::Delete(options));
    }

    /// Merges a patch into a machine.
    pub(super) fn patch_machine(&mut self, name: &str, patch: Value) {
        let _written = self.patch(USER, &kinds::machine(name), Part::Main, patch);
    }

    fn patch_machine_at(&mut self, position: usize, patch: Value) {
        self.of_machine(position, |world, name| world.patch_machine(name, patch));
    }

    /// Deletes a machine.
    pub(super) fn delete_machine(&mut self, name: &str) {
        let _gone = self.delete(USER, &kinds::machine(name));
    }

    /// The webhook can be reached again.
    pub(super) fn webhook_back(&mut self) {
        let outages = &mut self.environment.outages;
        *outages = outages.saturating_sub(1);
        let is_down = *outages > 0;
        self.environment.webhook_is_down.store(is_down, Ordering::Relaxed);
    }

    /// Lets time pass, so that a repair has another time than what it repairs.
    pub(super) fn pass(&mut self) {
        self.advance(SECOND);
    }
}
