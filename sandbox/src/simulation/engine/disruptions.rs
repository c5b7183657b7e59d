//! What disturbs the processes under test: crashes, pauses, elections, clocks, and caches.

use crate::api::ChangeKind;

use super::kinds::{CachedKind, KindId, ObjectKey, Version};
use super::replica::Replica;
use super::schedule::{Disruption, LEASE, MINUTE, SECOND};
use super::world::{Due, Environment, REPLICAS, World, replica_name, time_at};

/// The objects of a kind at a time, and the changes since; without an object if the object is gone.
type List = (Vec<(ObjectKey, Version)>, Vec<(ObjectKey, Option<Version>)>);

impl<E: Environment> World<E> {
    /// Executes a disruption of the schedule.
    pub(super) fn disrupt(&mut self, disruption: &Disruption) {
        match disruption {
            Disruption::Freeze(at, kind, time) => self.freeze(*at, *kind, *time),
            Disruption::Relist(at, kind, behind) => self.relist(*at, *kind, *behind),
            Disruption::Kill(at) => self.kill(*at),
            Disruption::Hang(at, time) => self.hang(*at, *time),
            Disruption::Lead(first, second) => self.lead([*first, *second]),
            Disruption::Jump(at, time) => self.jump(*at, *time),
            Disruption::Denied(kind, time) => {
                let until = self.now + time;
                let denied = self.denied.entry(*kind).or_default();
                *denied = until.max(*denied);
            }
            Disruption::GarbageLate(late) => self.delay_collector(*late),
        }
    }

    /// Sets which replicas believe that they lead. A replica that is paused for longer than its
    /// lease does not lead alone: the other one leads, too, until the pause ends.
    pub(super) fn lead(&mut self, mut elected: [bool; REPLICAS]) {
        let leading = self.replicas.iter().zip(elected).filter(|(_, elected)| *elected);
        let pauses: Vec<i64> = leading.map(|(replica, _)| replica.hangs_until).collect();
        if let [end] = *pauses
            && end > self.now + LEASE
        {
            self.at(end, Due::Lead(elected));
            elected = [true; REPLICAS];
        }
        for (at, elected) in elected.into_iter().enumerate() {
            let leads = self.environment.leads(elected);
            let Some(replica) = self.replicas.get_mut(at) else {
                continue;
            };
            if replica.leads != leads {
                replica.leads = leads;
                replica.leading.send_replace(leads);
                replica
                    .controllers
                    .iter()
                    .for_each(|controller| controller.leadership(leads));
                self.wake_all_at(at, self.now);
            }
        }
    }

    /// Whether a replica that leads runs now.
    pub(crate) fn is_led(&self) -> bool {
        let runs = |replica: &Replica<E::Moment>| replica.up && replica.leads && replica.hangs_until <= self.now;
        self.replicas.iter().any(runs)
    }

    /// Makes the first replica the only leader. Returns whether that is new.
    pub(super) fn settle_leader(&mut self) -> bool {
        let leads: Vec<bool> = self.replicas.iter().map(|replica| replica.leads).collect();
        let new = leads != [true, self.environment.leads(false)];
        if new {
            self.lead([true, false]);
        }
        new
    }

    /// Kills a replica. It restarts within a minute.
    pub(super) fn kill(&mut self, at: usize) {
        self.trace(|| format!("   capstan-{at} is killed"));
        if self.replicas.get(at).is_none_or(|replica| !replica.up) {
            return;
        }
        self.orphan_calls(at);
        let Some(replica) = self.replicas.get_mut(at) else {
            return;
        };
        replica.up = false;
        replica.epoch += 1;
        for task in &mut replica.tasks {
            task.running = None;
            task.idle = None;
        }
        let delay = self.between(&[replica_name(at), "restart"], SECOND, MINUTE);
        self.after(delay, Due::Restart(at));
    }

    /// Lets the calls arrive that a killed replica sent. They are judged by what was true in its
    /// reconciles, and not in those of the next process.
    fn orphan_calls(&mut self, at: usize) {
        let is_sent = |due: &Due<E::Moment, E::Event>| matches!(due, Due::Arrive { sent, .. } if sent.replica == at);
        let calls: Vec<(i64, u64)> = self
            .queue
            .iter()
            .filter(|(_, due)| is_sent(due))
            .map(|(key, _)| *key)
            .collect();
        for key in calls {
            if let Some(Due::Arrive { sent, .. }) = self.queue.remove(&key) {
                let moments = self.moments_of(at, sent.task).cloned().unwrap_or_default();
                self.queue.insert(key, Due::ArriveLate { sent, moments });
            }
        }
    }

    /// Starts a replica that was killed. Each kind is listed from an API server that may be behind.
    pub(super) fn restart(&mut self, at: usize) {
        self.trace(|| format!("   capstan-{at} restarts"));
        if let Some(replica) = self.replicas.get_mut(at) {
            replica.up = true;
        }
        self.start_process(at);
        let kinds: Vec<KindId> = self.kinds.iter().map(|kind| kind.id).collect();
        for kind in kinds {
            let key = [replica_name(at), kind.plural(), "list after a restart"];
            let behind = if self.calm || self.chooser.fault(&key, 600) {
                0
            } else {
                self.between(&key, 0, MINUTE)
            };
            self.relist(at, kind, behind);
        }
        self.wake_all_at(at, self.now);
    }

    fn hang(&mut self, at: usize, time: i64) {
        let until = self.now + time;
        if let Some(replica) = self.replicas.get_mut(at) {
            replica.hangs_until = replica.hangs_until.max(until);
        }
        self.wake_controller_at(at, 0, until);
    }

    /// Stops a replica for a time. If its lease ends meanwhile, the other replica leads, and for up
    /// to a minute after the pause both believe that they lead.
    pub(super) fn stall(&mut self, at: usize, time: i64) {
        self.trace(|| format!("   capstan-{at} is paused for {}s", time / SECOND));
        self.hang(at, time);
        if time > LEASE {
            let doubt = self.between(&[replica_name(at), "two leaders"], 0, MINUTE);
            self.after(LEASE, Due::Lead([true, true]));
            self.after(time + doubt, Due::Lead([at != 0, at != 1]));
        }
    }

    fn jump(&mut self, at: usize, time: i64) {
        if let Some(replica) = self.replicas.get_mut(at) {
            replica.clock += time;
        }
        self.wake_controller_at(at, 0, self.now);
    }

    fn freeze(&mut self, at: usize, kind: KindId, time: i64) {
        let until = self.now + time;
        if let Some(replica) = self.replicas.get_mut(at) {
            replica.cache.freeze(kind, until);
        }
        self.at(until, Due::Deliver(at, kind));
    }

    /// Stops all caches of a replica for a time.
    pub(super) fn freeze_all(&mut self, at: usize, time: i64) {
        let kinds: Vec<KindId> = self.kinds.iter().map(|kind| kind.id).collect();
        for kind in kinds {
            self.freeze(at, kind, time);
        }
    }

    /// Lists a kind as it was `behind` milliseconds ago. The watch then delivers what has changed
    /// since.
    fn relist(&mut self, at: usize, kind: KindId, behind: i64) {
        let Some(cached) = self.kinds.iter().find(|cached| cached.id == kind).copied() else {
            return;
        };
        let Some((list, later)) = self.list_at(cached, behind) else {
            return;
        };
        let now = self.now;
        let lag = self.between(&[replica_name(at), kind.plural(), "list"], 200, 5000);
        let Some(replica) = self.replicas.get_mut(at).filter(|replica| replica.up) else {
            return;
        };
        replica.cache.replace(kind, list);
        let mut due = now;
        for (key, version) in later {
            due = replica.cache.push(now + lag, key, version);
        }
        self.at(due, Due::Deliver(at, kind));
        self.reconcile_all(at);
    }

    /// A kind as it was `behind` milliseconds ago, and the changes since.
    fn list_at(&self, kind: CachedKind, behind: i64) -> Option<List> {
        let position = self.position(kind.id).ok()?;
        let version = self.api.version_at(time_at(self.now - behind));
        let key = |key: &crate::api::Key| ObjectKey::new(kind.id, &key.namespace, &key.name);
        let old = self.api.objects_at(position, version).into_iter();
        let list = old.filter_map(|(found, object)| Some((key(&found), kind.version(&object, None)?)));
        let later = self.api.changes_since(position, version).map(|change| {
            let gone = change.kind == ChangeKind::Deleted;
            let version = if gone { None } else { kind.version(&change.object, None) };
            (key(&change.key), version)
        });
        Some((list.collect(), later.collect()))
    }
}
