//! What happens around the controller: users, the cloud, the bootstrap of machines, the Machine
//! controller of core, a health check, and failures of the managed cluster. Until the faults stop,
//! an actor skips turns and objects.
//!
//! No actor takes away the quorum of etcd for ever: no controller could repair that.

use std::sync::MutexGuard;

use capstan_core::api::kind::KindInfo;
use capstan_core::api::kinds::{CLUSTER_API_CLUSTERS, CLUSTER_API_MACHINES, KUBEADM_CONFIGS, KUBEADM_CONTROL_PLANES};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::invariants;
use super::managed::{Instance, Managed, SimulatedClusters, Stage};
use super::objects::{
    HOOK, HOOKS, INSTANCES, NAME, NAMESPACE, PAUSED, PAUSED_ROLLOUT, VERSIONS, annotations, cluster_status, conditions,
    has, is_deleting, name, node_of, reports, template, text, version,
};
use crate::api::Object;
use crate::simulation::declared::{Stored, Users};

/// The last moment at which something fails or is changed, in seconds.
pub(super) const QUIET: u32 = 16 * 60;
/// From this second on, the conditions must explain what is not as it should be.
const EXPLAINED: u32 = QUIET + 2 * 60;
/// The hook of another controller.
const OTHER_HOOK: &str = "pre-terminate.delete.hook.machine.cluster.x-k8s.io/other";
/// The second at which a run begins, since 1970.
const BEGIN: i64 = 1_767_225_600;
/// The finalizer of a Machine.
const FINALIZER: &str = "machine.cluster.x-k8s.io";
/// A Node may be missing for this long before the health check acts, in seconds.
const STARTUP: u32 = 5 * 60;
/// A Node may be down for this long, in seconds.
const DOWN: u32 = 60;

pub(super) struct Round<'u, 'w> {
    pub(super) users: &'u mut Users<'w>,
    clusters: SimulatedClusters,
    pub(super) second: u32,
}

/// All actors act once.
pub(super) fn act_once(users: &mut Users<'_>, second: u32) {
    let Some(clusters) = users.companion::<SimulatedClusters>().cloned() else {
        return;
    };
    let mut round = Round {
        users,
        clusters,
        second,
    };
    {
        let mut managed = round.managed();
        managed.second = second;
        managed.refresh();
    }
    if second == 10 {
        round.status(&CLUSTER_API_CLUSTERS, NAME, cluster_status());
    }
    let is_restored = round.restore();
    if !is_restored {
        round.edit();
        round.touch_machines();
        round.give_up();
        round.fail();
    }
    round.clouds();
    round.core();
    if !is_restored {
        round.check();
    }
    round.managed().refresh();
    if second > EXPLAINED {
        // A pause of all processes that began before the faults end lasts longer.
        let is_led = round.users.is_led();
        invariants::a_condition_says_why(&round.stored(), second, is_led);
    }
}

impl Round<'_, '_> {
    pub(super) fn managed(&self) -> MutexGuard<'_, Managed> {
        self.clusters.lock()
    }

    fn is_quiet(&self) -> bool {
        self.second > QUIET
    }

    /// Whether an actor acts now, or on this object. It always does in the end.
    fn acts(&mut self) -> bool {
        self.is_quiet() || self.users.random().permille(600)
    }

    /// Whether something unlikely happens.
    pub(super) fn happens(&mut self, permille: u64) -> bool {
        !self.is_quiet() && self.users.random().permille(permille)
    }

    pub(super) fn stored(&self) -> Stored {
        self.users.stored()
    }

    fn patch(&mut self, kind: &'static KindInfo, name: &str, patch: Value) {
        self.users.patch(kind, NAMESPACE, name, patch);
    }

    fn status(&mut self, kind: &'static KindInfo, name: &str, patch: Value) {
        self.users.patch_status(kind, NAMESPACE, name, patch);
    }

    pub(super) fn machines(&self) -> Vec<Object> {
        self.stored().all(&CLUSTER_API_MACHINES).cloned().collect()
    }

    /// A random Machine.
    fn any_machine(&mut self) -> Option<Object> {
        let machines = self.machines();
        self.users.random().pick(&machines).cloned()
    }

    fn edit_control_plane(&mut self, patch: Value) {
        self.patch(&KUBEADM_CONTROL_PLANES, NAME, patch);
    }

    /// A user edits the control plane as admission allows it.
    fn edit(&mut self) {
        let surge = |number: u64| json!({"rollout": {"strategy": {"rollingUpdate": {"maxSurge": number}}}});
        if self.happens(12) {
            let replicas = [1, 3, 3, 5, 5];
            let replicas = self.users.random().pick(&replicas).copied().unwrap_or(3);
            let mut spec = if replicas < 3 { surge(1) } else { json!({}) };
            if let Some(fields) = spec.as_object_mut() {
                fields.insert("replicas".to_owned(), json!(replicas));
            }
            self.edit_control_plane(json!({ "spec": spec }));
        }
        self.edit_version();
        if self.happens(8) {
            let name = if self.users.random().permille(500) { "t1" } else { "t2" };
            let reference = template(name);
            self.edit_control_plane(json!({"spec": {"machineTemplate": {"spec": {"infrastructureRef": reference}}}}));
        }
        let stored = self.stored();
        let wanted = stored
            .get(&KUBEADM_CONTROL_PLANES, NAMESPACE, NAME)
            .map_or(0, super::objects::replicas);
        if wanted >= 3 && self.happens(10) {
            let number = self.users.random().below(2);
            self.edit_control_plane(json!({ "spec": surge(number) }));
        }
        if self.happens(8) {
            let value = format!("v{}", self.users.random().below(3));
            let labels = json!({"labels": {"team": value}});
            self.edit_control_plane(json!({"spec": {"machineTemplate": {"metadata": labels}}}));
        }
        for (annotation, share) in [(PAUSED_ROLLOUT, 4), (PAUSED, 4)] {
            let begins = self.happens(share);
            let ends = self.is_quiet() || self.users.random().permille(60);
            let is_set = stored
                .get(&KUBEADM_CONTROL_PLANES, NAMESPACE, NAME)
                .is_some_and(|one| annotations(one, annotation).next().is_some());
            let value = match (is_set, begins, ends) {
                (false, true, _) => json!("true"),
                (true, _, true) => Value::Null,
                _ => continue,
            };
            self.edit_control_plane(json!({"metadata": {"annotations": {(annotation): value}}}));
        }
        if self.second > QUIET / 2 && self.happens(1) {
            self.users.delete(&KUBEADM_CONTROL_PLANES, NAMESPACE, NAME);
        }
    }

    /// A user sets a version, which admission refuses if it is lower, or higher by more than one
    /// minor version. Seldom, the webhook is down. A user that reads the condition corrects the
    /// version.
    fn edit_version(&mut self) {
        let stored = self.stored();
        let Some(control_plane) = stored.get(&KUBEADM_CONTROL_PLANES, NAMESPACE, NAME) else {
            return;
        };
        let is_lowered = reports(control_plane, ("Stalled", "True", "VersionLowered"));
        if self.is_quiet() && is_lowered {
            let machines = self.machines();
            let highest = machines.iter().map(|machine| text(machine, "/spec/version")).max();
            let raised = highest.filter(|highest| *highest > text(control_plane, "/spec/version"));
            if let Some(version) = raised {
                self.edit_control_plane(json!({"spec": {"version": version}}));
            }
            return;
        }
        if !self.happens(25) {
            return;
        }
        let step = self.users.random().below(VERSIONS);
        let is_down = self.users.random().permille(60);
        let current = text(control_plane, "/spec/version");
        let current = (0..VERSIONS).find(|step| version(*step) == current).unwrap_or(0);
        if is_down || (step >= current && step / 2 <= current / 2 + 1) {
            self.edit_control_plane(json!({"spec": {"version": version(step)}}));
        }
    }

    /// A user deletes a Machine, marks it, or removes its hook.
    fn touch_machines(&mut self) {
        let Some(machine) = self.any_machine() else { return };
        let name = name(&machine).to_owned();
        // The deletion of all machines would remove the cluster.
        let mut others = self.machines().into_iter().filter(|other| !is_deleting(other));
        let others = others.any(|other| {
            let other = super::objects::name(&other);
            other != name && self.managed().members.contains_key(&node_of(other))
        });
        if others && self.happens(12) {
            self.users.delete(&CLUSTER_API_MACHINES, NAMESPACE, &name);
        }
        // A mark of the only machine would stay for ever.
        let mark = "cluster.x-k8s.io/remediate-machine";
        if self.is_quiet() && annotations(&machine, mark).next().is_some() {
            let patch = json!({"metadata": {"annotations": {(mark): null}}});
            self.patch(&CLUSTER_API_MACHINES, &name, patch);
        }
        for (mark, share) in [("remediate-machine", 6), ("delete-machine", 6)] {
            if self.happens(share) {
                let annotation = format!("cluster.x-k8s.io/{mark}");
                let patch = json!({"metadata": {"annotations": {(annotation): ""}}});
                self.patch(&CLUSTER_API_MACHINES, &name, patch);
            }
        }
        // Another controller has a hook of its own for a while.
        let is_held = annotations(&machine, OTHER_HOOK).next().is_some();
        let (begins, ends) = (self.happens(8), self.is_quiet() || self.users.random().permille(100));
        if is_held && ends {
            let patch = json!({"metadata": {"annotations": {(OTHER_HOOK): null}}});
            self.patch(&CLUSTER_API_MACHINES, &name, patch);
        } else if begins && !is_held && !is_deleting(&machine) {
            let patch = json!({"metadata": {"annotations": {(OTHER_HOOK): ""}}});
            self.patch(&CLUSTER_API_MACHINES, &name, patch);
        }
        // The member of the machine is lost, which the others must survive. A machine that still
        // joins would become a voter before it is gone.
        let has_joined = {
            let managed = self.managed();
            let instance = managed.instances.get(&name);
            instance.is_some_and(|one| one.stage == Stage::Joined)
        };
        if is_deleting(&machine) && has_joined && self.may_lose(&name) && self.happens(60) {
            let patch = json!({"metadata": {"annotations": {(HOOK): null}}});
            self.patch(&CLUSTER_API_MACHINES, &name, patch);
        }
    }

    /// A user gives up the only machine if a condition advises it, and if the machine never joined.
    fn give_up(&mut self) {
        let machines = self.machines();
        let [machine] = machines.as_slice() else { return };
        let own = name(machine);
        let instance = self.managed().instances.get(own).cloned();
        let stored = self.stored();
        let is_advised = stored
            .get(&KUBEADM_CONTROL_PLANES, NAMESPACE, NAME)
            .is_some_and(|one| conditions(one).iter().any(|one| one.to_string().contains(HOOK)));
        if !self.is_quiet() || !is_advised || instance.is_some_and(|one| one.stage == Stage::Joined) {
            return;
        }
        if !is_deleting(machine) {
            self.users.delete(&CLUSTER_API_MACHINES, NAMESPACE, own);
        }
        let patch = json!({"metadata": {"annotations": {(HOOK): null}}});
        self.patch(&CLUSTER_API_MACHINES, own, patch);
    }

    /// Whether the members of the instances that still run for ever are a quorum without this one.
    fn may_lose(&self, machine: &str) -> bool {
        let managed = self.managed();
        let node = node_of(machine);
        let voters = managed.members.iter().filter(|(_, member)| !member.is_learner);
        let (mut left, mut all) = (0, 0);
        for (name, _) in voters {
            all += 1;
            let own = managed.instances.get(name.strip_prefix("n-").unwrap_or_default());
            left += usize::from(*name != node && own.is_some_and(|one| !one.is_dead));
        }
        // Another Machine may be in deletion, without a hook.
        let stored = self.users.stored();
        let leaving = stored
            .all(&CLUSTER_API_MACHINES)
            .filter(|other| is_deleting(other) && annotations(other, HOOK).next().is_none() && name(other) != machine);
        let leaving = leaving
            .filter(|other| managed.members.contains_key(&node_of(name(other))))
            .count();
        2 * left.saturating_sub(leaving) > all
    }

    /// The managed cluster fails in part.
    fn fail(&mut self) {
        let names: Vec<String> = self.managed().instances.keys().cloned().collect();
        for machine in names {
            let (stops, dies) = (self.happens(8), self.happens(3));
            let seconds = self.users.random().between(20, 150);
            let until = self.second + u32::try_from(seconds).unwrap_or(60);
            let may_die = dies && self.may_lose(&machine);
            let mut managed = self.managed();
            let Some(instance) = managed.instances.get_mut(&machine) else {
                continue;
            };
            if stops {
                instance.down_until = until;
            }
            instance.is_dead |= may_die && instance.stage == Stage::Joined;
        }
        let (elects, breaks, loses, refuses) = (self.happens(25), self.happens(8), self.happens(15), self.happens(15));
        let recovers = self.is_quiet() || self.users.random().permille(200);
        let (alarms, heals) = (self.happens(4), self.is_quiet() || self.users.random().permille(100));
        let hides = self.happens(6);
        let mut random = self.users.random().branch();
        let mut managed = self.managed();
        managed.is_unreachable = (managed.is_unreachable && !recovers) || breaks;
        managed.lost = if loses {
            2
        } else if recovers {
            0
        } else {
            managed.lost
        };
        managed.refused = if refuses {
            1
        } else if recovers {
            0
        } else {
            managed.refused
        };
        if elects {
            let works = |member: &super::managed::EtcdMember| member.is_up && member.is_started && !member.is_learner;
            let names = managed.members.iter().filter(|(_, member)| works(member));
            let names: Vec<String> = names.map(|(name, _)| name.clone()).collect();
            managed.leader = random.pick(&names).cloned();
        }
        let names: Vec<String> = managed.members.keys().cloned().collect();
        let chosen = random.pick(&names).cloned().unwrap_or_default();
        managed.unreachable_member = match managed.unreachable_member.take() {
            None if hides => Some(chosen.clone()),
            hidden => hidden.filter(|_| !recovers),
        };
        for (name, member) in &mut managed.members {
            member.has_alarm = (member.has_alarm && !heals) || (alarms && *name == chosen);
        }
    }

    /// Instances appear for infrastructure machines, boot, and join.
    fn clouds(&mut self) {
        let stored = self.stored();
        for machine in stored.all(&CLUSTER_API_MACHINES) {
            let own = name(machine).to_owned();
            let is_known = self.managed().instances.contains_key(&own);
            let has_finalizer = machine.pointer("/metadata/finalizers").is_some();
            let instance = stored.get(&INSTANCES, NAMESPACE, &own);
            let config = stored.get(&KUBEADM_CONFIGS, NAMESPACE, &own);
            let (Some(instance), Some(config), true) = (instance, config, has_finalizer) else {
                continue;
            };
            if !is_known && !is_deleting(machine) && self.acts() {
                let is_stuck = self.happens(60);
                let version = text(machine, "/spec/version").to_owned();
                let new = Instance {
                    version,
                    is_stuck,
                    ..Instance::default()
                };
                self.managed().instances.insert(own.clone(), new);
                if !is_stuck && text(instance, "/spec/providerID").is_empty() {
                    self.patch(
                        &INSTANCES,
                        &own,
                        json!({"spec": {"providerID": format!("dev://{own}")}}),
                    );
                }
            } else if is_known && self.acts() {
                let joins = config.pointer("/spec/joinConfiguration/controlPlane").is_some();
                self.boot(&own, joins);
            }
        }
    }

    /// The next step of kubeadm on an instance.
    fn boot(&mut self, machine: &str, joins: bool) {
        let stops = self.happens(30);
        let second = self.second;
        let mut managed = self.managed();
        let Some(instance) = managed.instances.get(machine).cloned() else {
            return;
        };
        if instance.is_stuck || !instance.runs(second) || instance.stage == Stage::Joined {
            return;
        }
        if !joins {
            let version = instance.version;
            managed.initialize(machine, &version);
        } else if !managed.serves() {
            return;
        }
        let node = node_of(machine);
        let next = match instance.stage {
            _ if !joins => Stage::Joined,
            // One learner at a time, and all members must be connected.
            Stage::Created if managed.members.values().all(|one| !one.is_learner && one.is_up) => {
                managed.add_member(machine, true);
                Stage::Added
            }
            Stage::Created => return,
            Stage::Added | Stage::Learns => {
                let is_last = instance.stage == Stage::Learns;
                let Some(member) = managed.members.get_mut(&node) else {
                    return;
                };
                member.is_started = true;
                member.is_learner = !is_last;
                if is_last { Stage::Joined } else { Stage::Learns }
            }
            Stage::Joined => return,
        };
        if let Some(instance) = managed.instances.get_mut(machine) {
            instance.stage = next;
            instance.is_stuck = stops && next != Stage::Joined;
        }
        managed.refresh();
    }

    /// The Machine controller of core.
    fn core(&mut self) {
        let stored = self.stored();
        let is_removed = stored
            .get(&CLUSTER_API_CLUSTERS, NAMESPACE, NAME)
            .is_none_or(is_deleting);
        for machine in stored.all(&CLUSTER_API_MACHINES) {
            if !self.acts() {
                continue;
            }
            let own = name(machine).to_owned();
            let instance = stored.get(&INSTANCES, NAMESPACE, &own);
            if is_deleting(machine) {
                self.remove(machine, instance, is_removed);
                continue;
            }
            if machine.pointer("/metadata/finalizers").is_none() {
                self.patch(
                    &CLUSTER_API_MACHINES,
                    &own,
                    json!({"metadata": {"finalizers": [FINALIZER]}}),
                );
            }
            // The bootstrap controller fills in how a machine finds the cluster.
            let config = stored.get(&KUBEADM_CONFIGS, NAMESPACE, &own);
            let discovery = "/spec/joinConfiguration/discovery/bootstrapToken";
            if config.is_some_and(|one| {
                one.pointer("/spec/joinConfiguration/controlPlane").is_some() && one.pointer(discovery).is_none()
            }) {
                let token = json!({"discovery": {"bootstrapToken": {"token": "t"}}});
                self.patch(&KUBEADM_CONFIGS, &own, json!({"spec": {"joinConfiguration": token}}));
            }
            let id = instance.map_or("", |one| text(one, "/spec/providerID"));
            if !id.is_empty() && text(machine, "/spec/providerID") != id {
                self.patch(&CLUSTER_API_MACHINES, &own, json!({"spec": {"providerID": id}}));
            }
            self.observe(&own);
        }
    }

    /// Reports the Node of a Machine.
    fn observe(&mut self, machine: &str) {
        let instance = self.managed().instances.get(machine).cloned();
        let Some(instance) = instance.filter(|one| one.stage == Stage::Joined) else {
            return;
        };
        let status = if instance.runs(self.second) { "True" } else { "Unknown" };
        self.set(machine, &[("Ready", status, ""), ("Available", status, "")]);
        let reference = json!({"status": {"nodeRef": {"name": node_of(machine)}}});
        let stored = self.stored();
        let known = stored.get(&CLUSTER_API_MACHINES, NAMESPACE, machine);
        if known.is_some_and(|one| text(one, "/status/nodeRef/name").is_empty()) {
            self.status(&CLUSTER_API_MACHINES, machine, reference);
        }
    }

    /// Sets conditions of a Machine, and keeps the others.
    fn set(&mut self, machine: &str, wanted: &[(&str, &str, &str)]) {
        let stored = self.stored();
        let Some(known) = stored.get(&CLUSTER_API_MACHINES, NAMESPACE, machine) else {
            return;
        };
        if wanted.iter().all(|wanted| reports(known, *wanted)) {
            return;
        }
        let mut after = conditions(known);
        let now = Timestamp::from_second(BEGIN + i64::from(self.second)).unwrap_or_default();
        for (type_, status, reason) in wanted {
            let is_own = |one: &Value| one.get("type") == Some(&json!(type_));
            let known = after
                .iter()
                .find(|one| is_own(one) && one.get("status") == Some(&json!(status)));
            let since = known.and_then(|one| one.get("lastTransitionTime").cloned());
            after.retain(|one| !is_own(one));
            let since = since.unwrap_or_else(|| json!(now.to_string()));
            after.push(json!({"type": type_, "status": status, "reason": reason, "lastTransitionTime": since}));
        }
        after.sort_by_key(|one| one.get("type").map(Value::to_string));
        self.status(&CLUSTER_API_MACHINES, machine, json!({"status": {"conditions": after}}));
    }

    /// Drains a Machine, waits for its hooks, and deletes its instance.
    fn remove(&mut self, machine: &Object, instance: Option<&Object>, cluster_is_removed: bool) {
        let own = name(machine);
        let is_hooked = annotations(machine, HOOKS).next().is_some();
        let is_drained = has(machine, "Deleting", "True") || cluster_is_removed;
        if !is_drained {
            let leaves = ("Ready", "False", "Deleting");
            return self.set(own, &[("Deleting", "True", "DrainingNode"), leaves]);
        }
        if is_hooked {
            return self.set(own, &[("Deleting", "True", "WaitingForPreTerminateHook")]);
        }
        match instance {
            Some(_) => {
                self.managed().instances.remove(own);
                self.users.delete(&INSTANCES, NAMESPACE, own);
                self.users.delete(&KUBEADM_CONFIGS, NAMESPACE, own);
            }
            None => {
                let patch = json!({"metadata": {"finalizers": null}});
                self.patch(&CLUSTER_API_MACHINES, own, patch);
            }
        }
    }

    /// The health check of core.
    fn check(&mut self) {
        for machine in self.machines() {
            let own = name(&machine).to_owned();
            let second = self.second;
            let is_bad = {
                let mut managed = self.managed();
                let first = *managed.first_seen.entry(own.clone()).or_insert(second);
                match managed.instances.get_mut(&own) {
                    Some(one) if one.stage == Stage::Joined => {
                        let runs = one.runs(second);
                        let since = *one.down_since.get_or_insert(second);
                        if runs {
                            one.down_since = None;
                        }
                        !runs && second - since >= DOWN
                    }
                    _ => second - first >= STARTUP,
                }
            };
            let is_marked = annotations(&machine, "cluster.x-k8s.io/remediate-machine")
                .next()
                .is_some();
            if is_deleting(&machine) || !self.acts() {
                continue;
            }
            if is_bad || is_marked {
                let bad = ("OwnerRemediated", "False", "WaitingForRemediation");
                if !has(&machine, "OwnerRemediated", "False") || !has(&machine, "HealthCheckSucceeded", "False") {
                    self.set(&own, &[("HealthCheckSucceeded", "False", "NodeUnhealthy"), bad]);
                }
            } else if !has(&machine, "HealthCheckSucceeded", "True") {
                self.set(&own, &[("HealthCheckSucceeded", "True", "")]);
            }
        }
    }
}
