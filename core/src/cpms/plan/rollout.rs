//! The disruptive step of a plan, or the reason for its absence.
//!
//! The order is: finish a replacement by deleting the replaced machine; wait for a machine that is
//! being created; fill an index without a machine, or with machines that are all being deleted
//! (repair); start the next replacement (rollout). A pause, a limit and the etcd gate do not stop a
//! repair, because a control plane without one of its machines only improves by it. A failed
//! machine stops only the start of replacements. A rollout never starts while a machine is not
//! ready.

use jiff::Timestamp;

use super::made_machine;
use crate::cpms::action::{Action, Plan, Step, Wait, WaitReason, machine_ref};
use crate::cpms::degraded::{is_failed_replacement, keeps_replaced_machines};
use crate::cpms::etcd::Etcd;
use crate::cpms::indexes::REPLACES;
use crate::cpms::machine_state::{MachineState, NodeState};
use crate::cpms::pending_creates;
use crate::cpms::spec::{Spec, Strategy};
use crate::cpms::state::State;
use crate::model::{Degradation, Precondition};

/// The disruptive step; waits are added to the plan.
pub(super) fn decide(spec: &Spec, state: &State, now: Timestamp, plan: &mut Plan) -> Option<Step> {
    let view = View { spec, state, now };
    view.waits_for_machines(plan);
    // All parts run, so that the plan has the waits of the later parts. The first step is taken.
    let finish = if plan.degraded.iter().any(keeps_replaced_machines) {
        None
    } else {
        view.finish(plan)
    };
    let in_flight = view.indexes().any(|index| view.in_flight(index).is_some());
    let repair = if finish.is_none() && !in_flight {
        view.repair(plan)
    } else {
        None
    };
    let busy = finish.is_some() || repair.is_some() || in_flight;
    let start = if plan.degraded.is_empty() {
        view.start(busy, plan)
    } else {
        None
    };
    finish.or(repair).or(start)
}

/// Adds the waits for machines that start, are being deleted, or are not ready.
pub(super) fn waits(spec: &Spec, state: &State, now: Timestamp, plan: &mut Plan) {
    View { spec, state, now }.waits_for_machines(plan);
}

/// A machine that takes longer than the deadline.
pub(super) struct Late {
    pub(super) message: String,
}

/// What is past the progress deadline.
pub(super) fn overdue(spec: &Spec, state: &State, now: Timestamp) -> Vec<Late> {
    let Some(deadline) = spec.rollout.deadline else {
        return Vec::new();
    };
    let view = View { spec, state, now };
    view.running()
        .filter(|(_, since, _)| now.duration_since(*since) >= deadline)
        .map(|(machine, since, what)| Late {
            message: format!(
                "machine {} {what} since {since}, longer than the deadline of {deadline:#}",
                machine.name
            ),
        })
        .collect()
}

/// When the deadlines of running steps pass.
pub(super) fn deadlines(spec: &Spec, state: &State) -> Vec<Timestamp> {
    let Some(deadline) = spec.rollout.deadline else {
        return Vec::new();
    };
    let view = View {
        spec,
        state,
        now: Timestamp::MIN,
    };
    view.running()
        .filter_map(|(_, since, _)| since.checked_add(deadline).ok())
        .collect()
}

#[derive(Clone, Copy)]
struct View<'a> {
    spec: &'a Spec,
    state: &'a State,
    now: Timestamp,
}

impl<'a> View<'a> {
    fn indexes(self) -> impl Iterator<Item = u32> + 'a {
        self.state.indexes.iter().copied()
    }

    fn all(self, index: u32) -> Vec<&'a MachineState> {
        self.state.of_index(index).collect()
    }

    fn live(self, index: u32) -> Vec<&'a MachineState> {
        self.staying(index).collect()
    }

    fn staying(self, index: u32) -> impl Iterator<Item = &'a MachineState> {
        self.state.of_index(index).filter(|machine| !machine.is_deleting())
    }

    fn stable(self, machine: &MachineState) -> bool {
        self.state.is_stable(machine, self.now)
    }

    fn paused(self) -> bool {
        self.spec.rollout.paused
    }

    /// The number of ready machines that are not being deleted.
    fn ready(self) -> usize {
        let ready = |machine: &&MachineState| machine.is_ready() && !machine.is_deleting();
        self.state.each_machine().filter(ready).count()
    }

    /// A machine in flight: up to date, and not yet ready for the minimum time since its creation.
    /// A machine whose node was ready before, or was deleted, or that has failed, is not in flight;
    /// only a rollout waits for it.
    fn in_flight(self, index: u32) -> Option<&'a MachineState> {
        self.state.of_index(index).find(|machine| self.is_in_flight(machine))
    }

    fn is_in_flight(self, machine: &MachineState) -> bool {
        let fresh = match &machine.node {
            NodeState::None | NodeState::OfAnother { .. } | NodeState::Ready { .. } => true,
            NodeState::NotReady { was_ready, .. } => !was_ready,
            NodeState::Missing { .. } => false,
        };
        let starting = fresh && machine.is_current() && !machine.is_deleting() && !self.stable(machine);
        starting && !is_failed_replacement(machine)
    }

    /// The machines that a rollout waits for: machines in flight, and machines that are being
    /// deleted.
    fn running(self) -> impl Iterator<Item = (&'a MachineState, Timestamp, &'static str)> {
        let coming = self
            .indexes()
            .filter_map(move |index| self.in_flight(index))
            .filter(|machine| !machine.is_ready())
            .filter_map(|machine| Some((machine, machine.created?, "is not ready")));
        let going = self
            .state
            .each_machine()
            .filter_map(|machine| Some((machine, machine.deleting?, "is being deleted")));
        coming.chain(going)
    }

    /// The waits of every plan: for machines in flight, machines that are being deleted, and
    /// unready machines.
    fn waits_for_machines(self, plan: &mut Plan) {
        for index in self.indexes() {
            let in_flight = self.in_flight(index);
            let all = self.all(index);
            for machine in &all {
                let name = &machine.name;
                let because = machine.unready_because();
                if in_flight.is_some_and(|coming| coming.name == *name) {
                    let until = machine.stable_from(&self.state.settings);
                    let message = match (&because, until) {
                        (Some(because), _) => format!("waiting for machine {name} to become ready: it {because}"),
                        (None, Some(until)) => format!("machine {name} is ready, and counts as such from {until}"),
                        (None, None) => format!("waiting for machine {name}"),
                    };
                    let reason = if because.is_some() {
                        WaitReason::MachineReady
                    } else {
                        WaitReason::MinReady
                    };
                    plan.waits.push(self.wait(index, machine, reason, message, until));
                } else if machine.is_deleting() {
                    let message = format!("waiting for machine {name} to be removed{}", machine.held_by);
                    plan.waits
                        .push(self.wait(index, machine, WaitReason::MachineRemoved, message, None));
                } else if let Some(because) = because.filter(|_| machine.is_current()) {
                    let message = format!(
                        "machine {name} is not ready: it {because}; a rollout does not go past it. If it does not come \
                         back, delete the machine to have it replaced"
                    );
                    plan.waits
                        .push(self.wait(index, machine, WaitReason::NodeReady, message, None));
                }
            }
        }
    }

    /// Deletes the replaced machine, and the machines that an interrupted replacement left. With
    /// OnDelete, only users delete machines.
    fn finish(self, plan: &mut Plan) -> Option<Step> {
        if self.spec.strategy == Strategy::OnDelete {
            return None;
        }
        let mut chosen = None;
        for index in self.indexes() {
            let Some((target, because)) = self.surplus(index) else {
                continue;
            };
            if let Some((reason, message)) = self.blocks_deletion(target) {
                plan.waits.push(self.wait(index, target, reason, message, None));
            } else if chosen.is_none() {
                chosen = Some(self.delete(target, because));
            }
        }
        chosen
    }

    /// A machine of an index that can be deleted because another machine serves the index.
    fn surplus(self, index: u32) -> Option<(&'a MachineState, String)> {
        let live = self.live(index);
        if live.len() < 2 {
            return None;
        }
        let (updated, others): (Vec<&MachineState>, Vec<&MachineState>) = live
            .iter()
            .copied()
            .partition(|machine| machine.is_current() && self.stable(machine));
        let outdated: Vec<&MachineState> = others.into_iter().filter(|machine| !machine.is_current()).collect();
        if let Some(newest) = updated.last() {
            let why = |old: &MachineState| {
                format!(
                    "machine {} of index {index} is ready and up to date, and replaces {}",
                    newest.name, old.name
                )
            };
            let unready = outdated.iter().find(|machine| !machine.is_ready());
            if let Some(old) = unready.or(outdated.first()) {
                return Some((old, why(old)));
            }
            // A failed machine stays until a person has seen why it failed.
            let broken = |machine: &&&MachineState| {
                let starts = self.stable(machine) || self.is_in_flight(machine);
                machine.is_current() && !starts && !is_failed_replacement(machine)
            };
            if let Some(broken) = live.iter().find(broken) {
                return Some((broken, why(broken)));
            }
            let oldest = updated.first().filter(|_| updated.len() > 1)?;
            return Some((
                oldest,
                format!("index {index} has more than one updated machine, and this is the oldest"),
            ));
        }
        if outdated.len() < 2 {
            return None;
        }
        // The template changed again before the old machine was deleted. One outdated machine stays
        // until its replacement is ready: a ready one, or the older of two.
        let ready = outdated.iter().any(|machine| machine.is_ready());
        let unready = outdated.iter().rev().find(|machine| !machine.is_ready());
        let target = unready.filter(|_| ready).or(outdated.last())?;
        let which = if target.is_ready() || !ready {
            "this is the newest"
        } else {
            "this one is not ready"
        };
        Some((
            target,
            format!("index {index} has more than one outdated machine, and {which}"),
        ))
    }

    fn blocks_deletion(self, target: &MachineState) -> Option<(WaitReason, String)> {
        if self.paused() {
            return Some((WaitReason::Pause, self.pause_message(&target.name)));
        }
        if !target.is_ready() {
            return None;
        }
        if let Etcd::Unhealthy { message } = &self.state.etcd {
            return Some((WaitReason::EtcdHealthy, etcd_message(&target.name, message)));
        }
        let replicas = self.spec.replicas.count();
        let (needed, left) = (replicas.saturating_sub(1), self.ready().saturating_sub(1));
        if left < needed {
            let message = format!(
                "machine {} is not deleted: only {left} ready machine(s) would be left, and {needed} are needed",
                target.name
            );
            return Some((WaitReason::OtherIndex, message));
        }
        // A machine that was requested for an empty index does not serve it before it is ready.
        let unserved = self.unserved_indexes().next()?;
        (left < replicas && !self.is_replaced(target)).then(|| {
            let message = format!(
                "machine {} is not deleted: index {unserved} has no ready machine, only {left} ready machine(s) would \
                 be left, and no ready machine replaces this one",
                target.name
            );
            (WaitReason::OtherIndex, message)
        })
    }

    /// The indexes without a machine that stays.
    fn empty_indexes(self) -> impl Iterator<Item = u32> + 'a {
        self.indexes()
            .filter(move |index| self.staying(*index).next().is_none())
    }

    /// The indexes without a ready machine that stays.
    fn unserved_indexes(self) -> impl Iterator<Item = u32> + 'a {
        self.indexes()
            .filter(move |index| !self.staying(*index).any(|machine| machine.is_ready()))
    }

    /// Whether a machine was created to replace this one, and is up to date and ready. Other
    /// machines of the index do not count: names that end in the same number give unrelated
    /// machines the same index.
    fn is_replaced(self, target: &MachineState) -> bool {
        let replaces = |machine: &MachineState| {
            let mut observed = self.state.observed.machines.iter();
            let found = observed.find(|there| there.metadata.name() == machine.name);
            found.is_some_and(|there| there.metadata.annotations.get(REPLACES) == Some(&target.uid))
        };
        let mut machines = self.staying(target.index);
        machines.any(|machine| machine.is_current() && self.stable(machine) && replaces(machine))
    }

    /// Fills an index without a machine, or with machines that are all being deleted; one index at
    /// a time (decision 7).
    fn repair(self, plan: &mut Plan) -> Option<Step> {
        let empty = self.indexes().filter(|index| self.all(*index).is_empty());
        let leaving = self.indexes().filter(|index| {
            // Recreate deletes first, and then finds the index empty.
            !self.all(*index).is_empty() && self.live(*index).is_empty() && self.spec.strategy != Strategy::Recreate
        });
        let needed: Vec<u32> = empty.chain(leaving).collect();
        let (first, others) = needed.split_first()?;
        for index in others {
            plan.waits
                .push(self.wait_for_index(*index, WaitReason::OtherIndex, *first));
        }
        let replaced = self.all(*first).last().copied();
        // A machine that is being deleted, is not ready and has a hook runs no workload. Its hook
        // waits for the machine of this creation. If it counted, the creation would wait forever.
        let idle = |machine: &&MachineState| machine.is_deleting() && !machine.is_ready() && !machine.hooks.is_empty();
        let idle = self.state.each_machine().filter(idle).count();
        let total = self.state.machines.len().saturating_sub(idle + self.left_to_the_user());
        let most = self.spec.replicas.count();
        if total > most {
            plan.waits.push(Wait {
                index: Some(*first),
                subject: replaced.map(|machine| machine_ref(&self.spec.namespace, &machine.name)),
                reason: WaitReason::SurgeFree,
                message: format!(
                    "index {first} waits for its machine: there are {total} machines, one more than {most}"
                ),
                until: None,
            });
            return None;
        }
        let because = replaced.map_or_else(
            || format!("index {first} has no machine"),
            |machine| format!("machine {} of index {first} is being deleted", machine.name),
        );
        let step = self.create(*first, replaced, because, plan)?;
        let coming = self.coming(&step);
        self.unless_crowded(step, &coming, total + coming.len() > most, plan)
    }

    /// Requested machines, other than that of the step, that may still be created. Each would be
    /// one machine more (seed 70292: a second request created a machine, which was deleted; then
    /// the first request arrived).
    fn coming(self, step: &Step) -> Vec<((String, u32), Timestamp)> {
        let mut coming = pending_creates::coming(self.state, self.now);
        if let (Some(machine), Some(index)) = (step.machine(), step.index) {
            coming.remove(&(machine.to_owned(), index));
        }
        coming.into_iter().collect()
    }

    /// The creation, unless there would be too many machines with those that may still be created.
    fn unless_crowded(
        self,
        step: Step,
        coming: &[((String, u32), Timestamp)],
        crowded: bool,
        plan: &mut Plan,
    ) -> Option<Step> {
        let Some(((machine, index), until)) = coming.first().filter(|_| crowded) else {
            return Some(step);
        };
        plan.waits.push(Wait {
            index: step.index,
            subject: Some(step.subject),
            reason: WaitReason::SurgeFree,
            message: format!(
                "index {} waits for its machine: machine {machine} for index {index} was requested and may still be created",
                step.index.unwrap_or_default()
            ),
            until: Some(*until),
        });
        None
    }

    /// With strategy OnDelete, an additional machine of an index is left to the user. It must not
    /// delay the repair of another index, whether it is up to date or not: the template may have
    /// changed since the replacement was created (seed 34984).
    fn left_to_the_user(self) -> usize {
        if self.spec.strategy != Strategy::OnDelete {
            return 0;
        }
        let beside = |index: u32| self.live(index).len().saturating_sub(1);
        self.indexes().map(beside).sum()
    }

    /// Starts the next replacement.
    fn start(self, busy: bool, plan: &mut Plan) -> Option<Step> {
        let mut outdated: Vec<&MachineState> = self
            .indexes()
            .filter_map(|index| {
                let waiting = self.staying(index).all(|machine| !machine.is_current());
                self.staying(index).next().filter(|_| waiting)
            })
            .collect();
        if self.spec.strategy == Strategy::OnDelete {
            self.waits_for_user(plan);
            return None;
        }
        // Unready machines come first, because their replacement costs no capacity.
        outdated.sort_by_key(|machine| (machine.is_ready(), machine.index));
        let (next, others) = outdated.split_first()?;
        let blocked = self.blocks_start(next, busy);
        for machine in others {
            let (reason, message) = match (&blocked, &self.state.etcd) {
                (Some((WaitReason::Pause, _)), _) => (WaitReason::Pause, self.pause_message(&machine.name)),
                (Some((WaitReason::Limit, _)), _) => {
                    let message = format!("{}; the rollout is limited", self.outdated_message(machine));
                    (WaitReason::Limit, message)
                }
                (Some((WaitReason::EtcdHealthy, _)), Etcd::Unhealthy { message }) => {
                    (WaitReason::EtcdHealthy, etcd_message(&machine.name, message))
                }
                _ => (
                    WaitReason::OtherIndex,
                    format!("{}; index {} goes first", self.outdated_message(machine), next.index),
                ),
            };
            plan.waits
                .push(self.wait(machine.index, machine, reason, message, None));
        }
        if let Some((reason, message)) = blocked {
            plan.waits.push(self.wait(next.index, next, reason, message, None));
            return None;
        }
        let changes: Vec<String> = next.changes.iter().map(ToString::to_string).collect();
        let because = format!("machine {} is outdated: {}", next.name, changes.join(", "));
        if self.spec.strategy == Strategy::Recreate {
            return Some(self.delete(next, because));
        }
        let step = self.create(next.index, Some(next), because, plan)?;
        let coming = self.coming(&step);
        self.unless_crowded(step, &coming, !coming.is_empty(), plan)
    }

    fn blocks_start(self, next: &MachineState, busy: bool) -> Option<(WaitReason, String)> {
        let story = self.outdated_message(next);
        if self.paused() {
            return Some((WaitReason::Pause, self.pause_message(&next.name)));
        }
        if let Some(limit) = self.spec.rollout.limit {
            let done = self
                .indexes()
                .filter(|index| self.staying(*index).any(|machine| machine.is_current()))
                .count();
            if done >= limit {
                let message =
                    format!("{story}; {done} machine(s) are up to date and the rollout is limited to {limit}");
                return Some((WaitReason::Limit, message));
            }
        }
        if let Some(index) = self.empty_indexes().next() {
            return Some((
                WaitReason::OtherIndex,
                format!("{story}; index {index} needs a machine first"),
            ));
        }
        let total = self.state.machines.len();
        if busy || total > self.spec.replicas.count() {
            let message = format!("{story}; another replacement is under way");
            return Some((WaitReason::SurgeFree, message));
        }
        if !next.is_ready() {
            return self.recreate_gate(next, &story);
        }
        if let Etcd::Unhealthy { message } = &self.state.etcd {
            return Some((WaitReason::EtcdHealthy, etcd_message(&next.name, message)));
        }
        self.unready_elsewhere(next, &story)
    }

    /// A machine, also an unready one, is recreated only while all others are ready.
    fn recreate_gate(self, next: &MachineState, story: &str) -> Option<(WaitReason, String)> {
        if self.spec.strategy == Strategy::Recreate {
            return self.unready_elsewhere(next, story);
        }
        None
    }

    fn unready_elsewhere(self, next: &MachineState, story: &str) -> Option<(WaitReason, String)> {
        let unready = self
            .indexes()
            .filter(|index| *index != next.index)
            .find(|index| !self.staying(*index).any(|machine| machine.is_ready()))?;
        Some((
            WaitReason::OtherIndex,
            format!("{story}; the machine of index {unready} is not ready"),
        ))
    }

    /// With strategy OnDelete, every outdated machine waits for its user, also a machine whose
    /// replacement another strategy created.
    fn waits_for_user(self, plan: &mut Plan) {
        for machine in self
            .state
            .each_machine()
            .filter(|machine| !machine.is_deleting() && !machine.is_current())
        {
            let message = format!(
                "{}; delete the machine to have it replaced",
                self.outdated_message(machine)
            );
            plan.waits
                .push(self.wait(machine.index, machine, WaitReason::UserDelete, message, None));
        }
    }

    fn outdated_message(self, machine: &MachineState) -> String {
        let fields: Vec<&str> = machine.changes.iter().map(|change| change.field.as_str()).collect();
        format!("machine {} is outdated ({})", machine.name, fields.join(", "))
    }

    fn pause_message(self, name: &str) -> String {
        format!(
            "machine {name} waits: the rollout is paused by annotation {}",
            crate::cpms::spec::PAUSED_ROLLOUT
        )
    }

    fn wait(
        self,
        index: u32,
        machine: &MachineState,
        reason: WaitReason,
        message: String,
        until: Option<Timestamp>,
    ) -> Wait {
        Wait {
            index: Some(index),
            subject: Some(machine_ref(&self.spec.namespace, &machine.name)),
            reason,
            message,
            until: until.filter(|until| *until != Timestamp::MIN),
        }
    }

    fn wait_for_index(self, index: u32, reason: WaitReason, first: u32) -> Wait {
        Wait {
            index: Some(index),
            subject: self
                .all(index)
                .last()
                .map(|machine| machine_ref(&self.spec.namespace, &machine.name)),
            reason,
            message: format!("index {index} needs a machine; index {first} gets one first"),
            until: None,
        }
    }

    fn create(self, index: u32, replaced: Option<&MachineState>, because: String, plan: &mut Plan) -> Option<Step> {
        match made_machine(self.spec, self.state, index, replaced) {
            Ok(machine) => Some(Step {
                subject: machine_ref(&self.spec.namespace, machine.metadata.name()),
                index: Some(index),
                because,
                precondition: None,
                action: Action::Create {
                    machine: Box::new(machine),
                    failure_domain: self.state.placement.get(&index).cloned(),
                    repairs: replaced.is_none_or(MachineState::is_deleting),
                },
            }),
            // `degraded` checks all listed failure domains before, so that this error is not
            // expected.
            Err(error) => {
                plan.degraded.push(Degradation {
                    reason: "InvalidFailureDomain",
                    message: error.to_string(),
                });
                None
            }
        }
    }

    fn delete(self, target: &MachineState, because: String) -> Step {
        Step {
            action: Action::Delete {
                failure_domain: target.domain.clone(),
            },
            subject: machine_ref(&self.spec.namespace, &target.name),
            index: Some(target.index),
            because,
            precondition: Some(Precondition {
                uid: target.uid.clone(),
                resource_version: target.resource_version.clone(),
            }),
        }
    }
}

fn etcd_message(name: &str, message: &str) -> String {
    format!("machine {name} waits until etcd is healthy; its operator says: {message}")
}
