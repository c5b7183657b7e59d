//! What happens around the controller: users and the cloud. `provider` plays the reference
//! provider, and `cluster_api` the controllers of Cluster API. Until the faults stop, an actor
//! skips turns and objects.

use std::collections::BTreeMap;

use capstan_core::api::cluster_x_k8s_io::annotation::PAUSED;
use capstan_core::api::kind::KindInfo;
use capstan_core::api::kinds::{CLUSTER_API_MACHINES, MACHINE_POOLS};
use capstan_core::pool::Mode;
use capstan_core::pool::removal::FINALIZER;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::objects::{GROUPS, INSTANCES, NAMESPACE, POOL, finalizers, is_deleting, is_paused, name, text};
use crate::api::Object;
use crate::simulation::declared::{Stored, Users};

/// The last moment at which something is changed, in seconds.
pub(super) const QUIET: u32 = 20 * 60;

/// An instance, as the cloud knows it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Instance {
    pub(super) number: u64,
    pub(super) version: String,
    pub(super) is_healthy: bool,
    pub(super) is_booted: bool,
    /// A disruption budget holds the drain of the Node until the timeout of the Machine.
    pub(super) holds_drain: bool,
    /// When the drain began, in seconds.
    pub(super) drains_since: Option<u32>,
}

/// The instances by provider ID.
pub(super) type Instances = BTreeMap<String, Instance>;

/// The instances of a group.
pub(super) fn instances(group: &Object) -> Instances {
    let stored = group.pointer("/status/cloud");
    stored
        .and_then(|stored| Instances::deserialize(stored).ok())
        .unwrap_or_default()
}

/// What the actors share while each acts once.
pub(super) struct Round<'u, 'w> {
    pub(super) users: &'u mut Users<'w>,
    pub(super) mode: Mode,
    pub(super) second: u32,
    pub(super) cloud: Instances,
    pub(super) launched: u64,
}

/// All actors act once.
pub(super) fn act_once(users: &mut Users<'_>, mode: Mode, second: u32) {
    let stored = users.stored();
    let group = stored.get(&GROUPS, NAMESPACE, POOL);
    let launched = group.and_then(|group| group.pointer("/status/launched"));
    let mut round = Round {
        cloud: group.map(instances).unwrap_or_default(),
        launched: launched.and_then(Value::as_u64).unwrap_or(0),
        users,
        mode,
        second,
    };
    round.user();
    round.clouds();
    // No actor is always the first one.
    let machines_first = round.users.random().permille(500);
    if machines_first && round.acts() {
        round.machines();
    }
    if round.acts() {
        round.provider();
    }
    if mode == Mode::Extend && round.acts() {
        round.core();
    }
    if !machines_first && round.acts() {
        round.machines();
    }
    round.report();
}

/// Notes the versions of the pool and its Machines, which must not change any more.
pub(super) fn note_versions(users: &mut Users<'_>) {
    let versions = versions(&users.stored());
    let patch = json!({"metadata": {"annotations": {"at-rest": versions}}});
    users.patch(&GROUPS, NAMESPACE, POOL, patch);
}

/// The resource versions of the pool and its Machines as text.
pub(super) fn versions(stored: &Stored) -> String {
    let objects = stored.all(&MACHINE_POOLS).chain(stored.all(&CLUSTER_API_MACHINES));
    let versions = objects.map(|object| format!("{} {}", name(object), text(object, "/metadata/resourceVersion")));
    versions.collect::<Vec<String>>().join(", ")
}

impl Round<'_, '_> {
    pub(super) fn is_quiet(&self) -> bool {
        self.second > QUIET
    }

    /// Whether an actor acts now, or on this object. It always does in the end.
    pub(super) fn acts(&mut self) -> bool {
        self.is_quiet() || self.users.random().permille(600)
    }

    /// Whether something unlikely happens.
    pub(super) fn happens(&mut self, permille: u64) -> bool {
        !self.is_quiet() && self.users.random().permille(permille)
    }

    pub(super) fn stored(&self) -> Stored {
        self.users.stored()
    }

    pub(super) fn patch(&mut self, kind: &'static KindInfo, name: &str, patch: Value) {
        self.users.patch(kind, NAMESPACE, name, patch);
    }

    pub(super) fn annotate(&mut self, kind: &'static KindInfo, name: &str, key: &str, value: &Value) {
        self.patch(kind, name, json!({"metadata": {"annotations": {key: value}}}));
    }

    pub(super) fn status(&mut self, kind: &'static KindInfo, name: &str, status: &Value) {
        self.users
            .patch_status(kind, NAMESPACE, name, json!({ "status": status }));
    }

    /// A user edits, pauses, and deletes the pool.
    fn user(&mut self) {
        let stored = self.stored();
        let Some(pool) = stored.get(&MACHINE_POOLS, NAMESPACE, POOL) else {
            return;
        };
        if self.second == 10 {
            self.strategies();
        }
        if self.happens(30) {
            let replicas = self.users.random().below(6);
            self.patch(&MACHINE_POOLS, POOL, json!({"spec": {"replicas": replicas}}));
        }
        if self.happens(30) {
            let version = format!("v1.{}.0", self.users.random().below(4));
            let patch = json!({"spec": {"template": {"spec": {"version": version}}}});
            self.patch(&MACHINE_POOLS, POOL, patch);
        }
        if self.happens(10) {
            let seconds = self.users.random().between(20, 90);
            let deletion = json!({"deletion": {"nodeDrainTimeoutSeconds": seconds}});
            self.patch(&MACHINE_POOLS, POOL, json!({"spec": {"template": {"spec": deletion}}}));
        }
        match is_paused(pool) {
            false if self.happens(8) => self.annotate(&MACHINE_POOLS, POOL, PAUSED, &json!("")),
            true if self.is_quiet() || self.happens(150) => {
                self.annotate(&MACHINE_POOLS, POOL, PAUSED, &Value::Null);
            }
            _ => {}
        }
        // A pool without a finalizer of Capstan or of a core manager leaves objects behind.
        let is_held = self.mode == Mode::Extend || finalizers(pool).iter().any(|one| one == FINALIZER);
        if is_held && self.happens(2) {
            self.users.delete(&MACHINE_POOLS, NAMESPACE, POOL);
        }
        self.edit_machines(&stored);
    }

    /// The strategies of the run, which stay.
    fn strategies(&mut self) {
        let rolling = |limit: Value| json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": limit}});
        let strategy = match self.users.random().below(6) {
            // The provider must create an instance first.
            0 => Some(json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}})),
            number @ 1..=2 => Some(rolling(json!(number))),
            3 => Some(rolling(json!("50%"))),
            4 => Some(json!({"type": "OnDelete"})),
            _ => None,
        };
        let rollout = strategy.map(|strategy| json!({ "strategy": strategy }).to_string());
        self.annotate(&MACHINE_POOLS, POOL, "capstan.dev/rollout", &json!(rollout));
        if self.users.random().permille(300) {
            let limit = json!({"maxInFlight": self.users.random().between(1, 2)}).to_string();
            self.annotate(&MACHINE_POOLS, POOL, "capstan.dev/remediation", &json!(limit));
        }
    }

    /// A user deletes or marks a Machine, or takes a label of it.
    fn edit_machines(&mut self, stored: &Stored) {
        let names: Vec<String> = stored
            .all(&CLUSTER_API_MACHINES)
            .map(|one| name(one).to_owned())
            .collect();
        let Some(machine) = self.users.random().pick(&names).cloned() else {
            return;
        };
        if self.happens(20) {
            self.users.delete(&CLUSTER_API_MACHINES, NAMESPACE, &machine);
        }
        if self.happens(20) {
            let mark = "cluster.x-k8s.io/delete-machine";
            self.annotate(&CLUSTER_API_MACHINES, &machine, mark, &json!("yes"));
        }
        // A core manager restores the label on its own.
        if self.mode == Mode::Own && self.happens(12) {
            let labels = match self.users.random().permille(500) {
                true => json!({"cluster.x-k8s.io/pool-name": null}),
                false => json!({"cluster.x-k8s.io/cluster-name": "another"}),
            };
            self.patch(&CLUSTER_API_MACHINES, &machine, json!({"metadata": {"labels": labels}}));
        }
    }

    /// Instances boot, fail, and vanish, some of them with their infrastructure machine.
    fn clouds(&mut self) {
        let stored = self.stored();
        for id in self.cloud.keys().cloned().collect::<Vec<String>>() {
            let (boots, fails, vanishes) = (self.acts(), self.happens(8), self.happens(8));
            if vanishes {
                self.cloud.remove(&id);
                let machine = stored.all(&INSTANCES).find(|one| text(one, "/spec/providerID") == id);
                if let Some(machine) = machine.filter(|_| self.happens(500)) {
                    let machine = name(machine).to_owned();
                    let metadata = json!({"finalizers": null, "annotations": {"lost": "yes"}});
                    self.patch(&INSTANCES, &machine, json!({ "metadata": metadata }));
                    self.users.delete(&INSTANCES, NAMESPACE, &machine);
                }
                continue;
            }
            if let Some(instance) = self.cloud.get_mut(&id) {
                instance.is_booted |= boots;
                instance.is_healthy &= !fails;
            }
        }
    }

    /// Stores the cloud, and what the provider reports of it. Sometimes it forgets for a turn that
    /// it can delete single instances, or that it is ready. Its list of instances lags.
    fn report(&mut self) {
        let (forgets, is_unready) = (self.happens(20), self.happens(20));
        let kind = if forgets { "" } else { &*INSTANCES.kind };
        let after = json!({"launched": self.launched, "cloud": self.cloud, "ready": !is_unready,
            "infrastructureMachineKind": kind, "replicas": self.cloud.len()});
        let stored = self.stored();
        let Some(group) = stored.get(&GROUPS, NAMESPACE, POOL).filter(|group| !is_deleting(group)) else {
            return self.report_last(&stored, &after);
        };
        let ids: Vec<&String> = self.cloud.keys().collect();
        let ids = json!({"spec": {"providerIDList": ids}});
        if group.pointer("/spec/providerIDList") != ids.pointer("/spec/providerIDList") && self.acts() {
            self.patch(&GROUPS, POOL, ids);
        }
        if group.get("status") != Some(&after) {
            // A merge patch keeps the instances that are gone.
            self.status(&GROUPS, POOL, &json!({"cloud": null}));
            self.status(&GROUPS, POOL, &after);
        }
    }

    /// Stores the cloud of a group that is being deleted.
    fn report_last(&mut self, stored: &Stored, after: &Value) {
        let Some(group) = stored.get(&GROUPS, NAMESPACE, POOL) else {
            return;
        };
        if group.pointer("/status/cloud") != after.pointer("/cloud") {
            self.status(&GROUPS, POOL, &json!({"cloud": null}));
            self.status(&GROUPS, POOL, &json!({"cloud": self.cloud}));
        }
    }
}
