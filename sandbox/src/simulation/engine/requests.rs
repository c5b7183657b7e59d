//! A call of a controller, from its dispatch to its answer.
//!
//! The faults of a call are drawn here. A call that was sent reaches the API server even if its
//! sender is killed.

use std::sync::Arc;

use capstan_core::model::Propagation;

use crate::api::{DeleteOptions, Failure, Key, Object, Part, PatchKind, Reply, Selector, Verb, WriteOptions};

use super::faults::FaultRates;
use super::faults::{CLIENT_TIMEOUT, Dice, RequestFault, reason};
use super::kinds::{ObjectKey, Version};
use super::options::WriteFault;
use super::port::{Answer, Call};
use super::replica::Replica;
use super::schedule::{MINUTE, SECOND};
use super::world::{Actor, Due, Environment, Sent, World, replica_name};

/// The caches of a replica stop for this long after a write with [`WriteFault::StaleCache`], and
/// the replica itself with [`WriteFault::StandStill`], in milliseconds.
const SINGLE_PAUSE: i64 = 10 * MINUTE;

/// The random source of the faults of one call.
struct CallDice<'a, E: Environment> {
    world: &'a mut World<E>,
    key: [&'a str; 4],
}

impl<E: Environment> Dice for CallDice<'_, E> {
    fn occurs(&mut self, rate: u64) -> bool {
        let world = &mut *self.world;
        if rate == 0 || !world.chooser.fault(&self.key, rate) {
            return false;
        }
        world.outcome.faults += 1;
        !world.options.spared.contains(&world.outcome.faults)
    }

    fn between(&mut self, least: i64, most: i64) -> i64 {
        self.world.between(&self.key, least, most)
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.world.chooser.fault_below(&self.key, bound as u64)).unwrap_or(0)
    }
}

/// The key of a draw about a call.
fn key_of<'a>(replica: usize, call: &'a Call, purpose: &'static str) -> [&'a str; 4] {
    [replica_name(replica), call.verb(), call.name(), purpose]
}

impl<E: Environment> World<E> {
    /// Sends a call of a controller.
    pub(super) fn dispatch(&mut self, replica: usize, task: usize, id: u64, mut call: Call) {
        let Some(epoch) = self.replicas.get(replica).map(|replica| replica.epoch) else {
            return;
        };
        let is_write = call.is_write();
        self.outcome.writes += u64::from(is_write);
        let altered = !E::alter_call(self, &mut call);
        let sent = Box::new(Sent {
            replica,
            task,
            epoch,
            id,
            call,
        });
        if altered {
            // The seeded bug takes the write for executed.
            let answer = self.pretend(&sent.call);
            return self.answer_after(5, &sent, answer);
        }
        let latency = self.between(&key_of(replica, &sent.call, "request"), 2, 40);
        if is_write
            && self
                .denied
                .get(&sent.call.kind())
                .is_some_and(|until| *until > self.now)
        {
            self.trace(|| format!("   {} of capstan-{replica} is forbidden", describe(&sent.call)));
            let mut answer = Err(refusal(403));
            E::alter_answer(self, replica, &sent.call, &mut answer);
            return self.answer_after(latency, &sent, answer);
        }
        E::judge_call(self, replica, &sent.call);
        if let Some(fault) = self.trigger(&sent.call) {
            return self.meet(sent, latency, fault);
        }
        if let Some((number, fault)) = self.options.single
            && is_write
            && number == self.outcome.writes
        {
            self.trace(|| format!("   write {number} of capstan-{replica}: {fault:?}"));
            return self.strike_write(sent, latency, fault);
        }
        self.strike(sent, latency);
    }

    /// Lets a call meet the faults of the schedule.
    fn strike(&mut self, sent: Box<Sent>, latency: i64) {
        let rates = self.schedule.rates;
        if self.calm || rates == FaultRates::default() {
            return self.arrive_after(latency, sent);
        }
        let replica = sent.replica;
        let mut dice = CallDice {
            world: self,
            key: key_of(replica, &sent.call, "fault"),
        };
        if let Some(time) = rates.stall(&mut dice) {
            dice.world.stall(replica, time);
        }
        match rates.draw(&mut dice, sent.call.is_write()) {
            Some(fault) => {
                self.note_fault(&sent.call, fault);
                self.meet(sent, latency, fault);
            }
            None => self.arrive_after(latency, sent),
        }
    }

    /// Lets a call meet a fault.
    fn meet(&mut self, sent: Box<Sent>, latency: i64, fault: RequestFault) {
        let replica = sent.replica;
        let call = if self.options.trace {
            describe(&sent.call)
        } else {
            String::new()
        };
        let line = match fault {
            RequestFault::Slow(time) => format!("{call} of capstan-{replica} takes {}s", time / SECOND),
            RequestFault::ReadFailed => format!("a read of capstan-{replica} fails"),
            RequestFault::Refused(code) => format!("{call} of capstan-{replica} is refused with {code}"),
            RequestFault::Dropped => format!("{call} of capstan-{replica} never arrives"),
            RequestFault::ReplyLost => format!("the answer to {call} of capstan-{replica} will be lost"),
            RequestFault::Late(time) => format!("{call} of capstan-{replica} will arrive {}s late", time / SECOND),
            RequestFault::CrashBefore => format!("capstan-{replica} is killed before {call}"),
            RequestFault::CrashAfter => format!("capstan-{replica} will be killed after {call}"),
        };
        self.trace(|| format!("   {line}"));
        match fault {
            RequestFault::Slow(time) => self.arrive_after(time, sent),
            RequestFault::ReadFailed => self.answer_after(latency, &sent, Err(timeout())),
            RequestFault::Refused(code) => {
                E::refused(self, &sent.call);
                self.answer_after(latency, &sent, Err(refusal(code)));
            }
            RequestFault::Dropped => self.answer_after(CLIENT_TIMEOUT, &sent, Err(timeout())),
            RequestFault::ReplyLost => self.after(
                latency,
                Due::Arrive {
                    sent,
                    lost: true,
                    crash: false,
                },
            ),
            RequestFault::Late(time) => {
                self.answer_after(CLIENT_TIMEOUT, &sent, Err(timeout()));
                let moments = self.moments_of(replica, sent.task).cloned().unwrap_or_default();
                self.after(time, Due::ArriveLate { sent, moments });
            }
            RequestFault::CrashBefore => self.kill(replica),
            RequestFault::CrashAfter => self.after(
                latency,
                Due::Arrive {
                    sent,
                    lost: false,
                    crash: true,
                },
            ),
        }
    }

    /// Lets a write meet one given fault.
    fn strike_write(&mut self, sent: Box<Sent>, latency: i64, fault: WriteFault) {
        match fault {
            WriteFault::CrashBefore => return self.kill(sent.replica),
            WriteFault::CrashAfter => {
                return self.after(
                    latency,
                    Due::Arrive {
                        sent,
                        lost: false,
                        crash: true,
                    },
                );
            }
            WriteFault::ReplyLost => {
                return self.after(
                    latency,
                    Due::Arrive {
                        sent,
                        lost: true,
                        crash: false,
                    },
                );
            }
            WriteFault::Conflict => {
                E::refused(self, &sent.call);
                return self.answer_after(latency, &sent, Err(refusal(409)));
            }
            WriteFault::StaleCache => self.freeze_all(sent.replica, SINGLE_PAUSE),
            WriteFault::StandStill => self.stall(sent.replica, SINGLE_PAUSE),
        }
        self.strike(sent, latency);
    }

    fn arrive_after(&mut self, delay: i64, sent: Box<Sent>) {
        let (lost, crash) = (false, false);
        self.after(delay, Due::Arrive { sent, lost, crash });
    }

    fn answer_after(&mut self, delay: i64, sent: &Sent, answer: kube::Result<Answer>) {
        let due = Due::Answer {
            replica: sent.replica,
            task: sent.task,
            epoch: sent.epoch,
            id: sent.id,
            answer,
        };
        self.after(delay, due);
    }

    /// A call arrives whose sender gave it up or was killed. It is judged by what was true when it
    /// was sent, and its sender, which may base its next reconcile on something else, does not
    /// learn of it.
    pub(super) fn arrive_late(&mut self, mut sent: Sent, moments: Vec<E::Moment>) {
        let (replica, task) = (sent.replica, sent.task);
        if !self.environment.answers() {
            return E::refused(self, &sent.call);
        }
        let current = self
            .moments_of(replica, task)
            .map(|current| std::mem::replace(current, moments));
        let _lost = self.execute(replica, task, &mut sent.call);
        if let (Some(moments), Some(current)) = (self.moments_of(replica, task), current) {
            *moments = current;
        }
    }

    /// A call arrives.
    pub(super) fn arrive(&mut self, mut sent: Sent, lost: bool, crash: bool) {
        let (replica, task) = (sent.replica, sent.task);
        if !self.environment.answers() {
            self.trace(|| format!("   no API server answers {} of capstan-{replica}", describe(&sent.call)));
            E::refused(self, &sent.call);
            return self.answer_after(CLIENT_TIMEOUT, &sent, Err(timeout()));
        }
        let mut answer = self.execute(replica, task, &mut sent.call);
        E::alter_answer(self, replica, &sent.call, &mut answer);
        let epoch = self.replicas.get(replica).map(|replica| replica.epoch);
        if epoch != Some(sent.epoch) {
            return;
        }
        if crash {
            return self.kill(replica);
        }
        let latency = self.between(&key_of(replica, &sent.call, "answer"), 2, 40);
        if lost {
            return self.answer_after(CLIENT_TIMEOUT, &sent, Err(timeout()));
        }
        if answer.is_ok()
            && let Call::Create(key, _) | Call::Delete { key, .. } = &sent.call
            && let Some(slot) = self
                .replicas
                .get_mut(replica)
                .and_then(|replica| replica.tasks.get_mut(task))
        {
            slot.written.push(key.clone());
        }
        self.answer_after(latency, &sent, answer);
    }

    /// Executes a call. Its object or patch is taken out of it.
    fn execute(&mut self, replica: usize, task: usize, call: &mut Call) -> kube::Result<Answer> {
        let controller = self.controller_of(replica, task);
        if self.environment.is_decisive(controller, call) {
            let moment = E::moment(self);
            self.moments_of(replica, task)
                .into_iter()
                .for_each(|moments| moments.push(moment.clone()));
        }
        let actor = Actor::Controller {
            replica,
            controller,
            task,
        };
        let (key, part, verb) = match call {
            Call::Get(key) => return Ok(Answer::Object(self.objects.get(key).cloned())),
            Call::List { all, selectors } => return self.list(all, selectors).map(Answer::List),
            Call::Create(key, object) => {
                let verb = Verb::Create(object.take(), WriteOptions::default());
                (&*key, Part::Main, verb)
            }
            Call::DryRun(key, object) => {
                let options = WriteOptions {
                    dry_run: true,
                    ..WriteOptions::default()
                };
                (&*key, Part::Main, Verb::Create(object.take(), options))
            }
            Call::Patch { key, status, patch } => {
                let part = if *status { Part::Status } else { Part::Main };
                let verb = Verb::Patch(PatchKind::Merge, patch.take(), WriteOptions::default());
                (&*key, part, verb)
            }
            Call::Apply {
                key,
                manager,
                force,
                object,
            } => {
                let options = WriteOptions {
                    manager: (*manager).to_owned(),
                    force: *force,
                    ..WriteOptions::default()
                };
                (&*key, Part::Main, Verb::Patch(PatchKind::Apply, object.take(), options))
            }
            Call::Delete {
                key,
                uid,
                resource_version,
            } => {
                let options = DeleteOptions {
                    uid: uid.clone(),
                    resource_version: resource_version.clone(),
                    propagation: Some(Propagation::Background),
                    ..DeleteOptions::default()
                };
                (&*key, Part::Main, Verb::Delete(options))
            }
        };
        match self.request(actor, key, part, verb) {
            Ok(Reply::Object { object, .. }) => Ok(Answer::Written(object)),
            Ok(Reply::List(_) | Reply::Done(_)) => Ok(Answer::Gone),
            Err(failure) => Err(api_error(&failure)),
        }
    }

    /// The objects of a kind and a namespace that fit at least one of these label selectors; all of
    /// them without selectors.
    fn list(&self, all: &ObjectKey, selectors: &[String]) -> kube::Result<Vec<Version>> {
        let parsed = selectors.iter().map(|selector| Selector::parse(selector, ""));
        let parsed = parsed.collect::<Result<Vec<_>, _>>();
        let selectors = parsed.map_err(|failure| api_error(&failure))?;
        let listed = self.objects.of_kind(all.kind).filter(|(key, version)| {
            let within = all.namespace.is_empty() || key.namespace == all.namespace;
            let mut selectors = selectors.iter();
            within && (selectors.len() == 0 || selectors.any(|selector| selector.matches(&*version.stored)))
        });
        Ok(listed.map(|(_, version)| version.clone()).collect())
    }

    fn stored(&self, key: &ObjectKey) -> Option<&Arc<Object>> {
        let kind = self.position(key.kind).ok()?;
        self.api.object(&Key {
            kind,
            namespace: key.namespace.clone(),
            name: key.name.clone(),
        })
    }

    /// The answer to a write that was not executed, as if it had been.
    fn pretend(&self, call: &Call) -> kube::Result<Answer> {
        match call {
            Call::Patch { key, patch, .. } => {
                let mut object = self.stored(key).ok_or_else(timeout)?.to_value();
                json_patch::merge(&mut object, patch);
                let object = Object::of(object).ok_or_else(timeout)?;
                Ok(Answer::Written(Arc::new(object)))
            }
            _ => Ok(Answer::Gone),
        }
    }

    /// An answer reaches its process, if that still runs. A process that is stopped receives it
    /// later.
    pub(super) fn receive(&mut self, at: usize, task: usize, epoch: u64, id: u64, answer: kube::Result<Answer>) {
        let now = self.now;
        let running = |replica: &&mut Replica<_>| replica.epoch == epoch && replica.up;
        let Some(replica) = self.replicas.get_mut(at).filter(running) else {
            return;
        };
        if replica.hangs_until > now {
            let until = replica.hangs_until;
            let due = Due::Answer {
                replica: at,
                task,
                epoch,
                id,
                answer,
            };
            return self.at(until, due);
        }
        if let Some(slot) = replica.tasks.get(task) {
            slot.port.answer(id, answer);
        }
        self.poll(at, task);
    }
}

/// The error of a request that the API server refused.
fn api_error(failure: &Failure) -> kube::Error {
    match serde_json::from_value(failure.status()) {
        Ok(status) => kube::Error::Api(status),
        Err(error) => kube::Error::SerdeError(error),
    }
}

/// The error of a request that a fault refuses.
fn refusal(code: u16) -> kube::Error {
    api_error(&Failure::new(
        code,
        reason(code),
        "refused by a fault of the simulation",
    ))
}

/// The error of a request without an answer.
fn timeout() -> kube::Error {
    kube::Error::Service("the connection broke".into())
}

/// A call, as a trace names it.
fn describe(call: &Call) -> String {
    match call {
        Call::Create(key, _) => format!("the creation of {:?}", key.name),
        Call::DryRun(key, _) => format!("the dry run of {:?}", key.name),
        Call::Patch { key, status: true, .. } => format!("the status patch of {:?}", key.name),
        Call::Patch { key, .. } => format!("the patch of {:?}", key.name),
        Call::Delete { key, .. } => format!("the deletion of {:?}", key.name),
        Call::Apply { key, .. } => format!("the apply of {:?}", key.name),
        Call::List { all, .. } => format!("the list of {:?}", all.kind),
        Call::Get(key) => format!("the read of {:?} {:?}", key.kind, key.name),
    }
}
