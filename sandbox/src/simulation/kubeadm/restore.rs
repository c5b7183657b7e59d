//! A user restores the management cluster from a backup: the Machines come back later than the
//! control plane, and its status may be lost. Meanwhile the managed cluster runs, and the
//! controller may not be able to read it. A first machine would be a second etcd (K4).

use capstan::controllers::kubeadm_control_plane::SECRETS;
use capstan_core::api::kinds::{CLUSTER_API_MACHINES, KUBEADM_CONTROL_PLANES};
use capstan_core::kcp::pending::LAST_CREATED;
use serde_json::{Value, json};

use super::actors::{QUIET, Round};
use super::managed::{Access, Backup, Stage};
use super::objects::{NAME, NAMESPACE, annotations, is_deleting, name};
use crate::api::Object;

/// The longest time for which the managed cluster is silent, in seconds: shorter than the silence
/// that permits a first machine.
const LONGEST_SILENCE: u64 = 200;

/// The longest time for which the Machines are missing, in seconds.
const LONGEST: u32 = 460;

impl Round<'_, '_> {
    /// Restores the Machines when it is time, or begins a restore. Returns whether Machines are
    /// missing.
    pub(super) fn restore(&mut self) -> bool {
        let backup = self.managed().backup.clone();
        if let Some(backup) = backup {
            if self.second < backup.until {
                return true;
            }
            self.managed().backup = None;
            self.put_back(&backup.machines);
            return false;
        }
        // The longest restore ends before the faults do.
        self.second + LONGEST < QUIET && self.is_complete() && self.happens(12) && self.lose_machines()
    }

    /// Whether every Machine has joined and stays, and the controller has seen one of them.
    fn is_complete(&self) -> bool {
        let stored = self.stored();
        let control_plane = stored.get(&KUBEADM_CONTROL_PLANES, NAMESPACE, NAME);
        if control_plane.is_none_or(|one| annotations(one, LAST_CREATED).next().is_none()) {
            return false;
        }
        let managed = self.managed();
        let joined = |machine: &Object| {
            let instance = managed.instances.get(name(machine));
            instance.is_some_and(|one| one.stage == Stage::Joined && one.runs(self.second)) && !is_deleting(machine)
        };
        let machines = self.machines();
        managed.serves() && !machines.is_empty() && machines.iter().all(joined)
    }

    fn lose_machines(&mut self) -> bool {
        let machines = self.machines();
        let until = self.second + self.seconds(100, u64::from(LONGEST));
        let silent = self.second + self.seconds(20, LONGEST_SILENCE);
        let accesses = [Access::Works, Access::SilentUntil(silent), Access::Refused];
        let access = self.users.random().pick(&accesses).copied();
        let (status_is_lost, kubeconfig_is_lost) =
            (self.users.random().permille(500), self.users.random().permille(300));
        self.managed().backup = Some(Backup {
            machines: machines.iter().map(stored_part).collect(),
            until,
            access: access.unwrap_or(Access::Works),
        });
        for machine in &machines {
            self.users.delete(&CLUSTER_API_MACHINES, NAMESPACE, name(machine));
            let released = json!({"metadata": {"finalizers": null}});
            self.users
                .patch(&CLUSTER_API_MACHINES, NAMESPACE, name(machine), released);
        }
        if status_is_lost {
            let lost = json!({"status": {"initialization": null}});
            self.users.patch_status(&KUBEADM_CONTROL_PLANES, NAMESPACE, NAME, lost);
            let released = json!({"metadata": {"ownerReferences": null}});
            self.users.patch(&SECRETS, NAMESPACE, "c-kubeconfig", released);
        } else if kubeconfig_is_lost {
            self.users.delete(&SECRETS, NAMESPACE, "c-kubeconfig");
        }
        true
    }

    fn seconds(&mut self, from: u64, to: u64) -> u32 {
        u32::try_from(self.users.random().between(from, to)).unwrap_or(100)
    }

    fn put_back(&mut self, machines: &[Value]) {
        for machine in machines {
            self.users.create(&CLUSTER_API_MACHINES, NAMESPACE, machine.clone());
            let own = machine.pointer("/metadata/name").and_then(Value::as_str);
            let status = json!({"status": machine.get("status")});
            self.users
                .patch_status(&CLUSTER_API_MACHINES, NAMESPACE, own.unwrap_or_default(), status);
        }
    }
}

/// What a backup contains of a Machine.
fn stored_part(machine: &Object) -> Value {
    let field = |pointer: &str| machine.pointer(pointer).cloned().unwrap_or(Value::Null);
    json!({
        "apiVersion": field("/apiVersion"), "kind": "Machine",
        "metadata": {
            "name": field("/metadata/name"), "namespace": NAMESPACE,
            "labels": field("/metadata/labels"), "annotations": field("/metadata/annotations"),
            "finalizers": field("/metadata/finalizers"), "ownerReferences": field("/metadata/ownerReferences"),
        },
        "spec": field("/spec"), "status": field("/status"),
    })
}
