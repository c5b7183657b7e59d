//! A request of a replica on its way: what befalls it, what the API server answers, and when the answer is back.

use capstan::controllers::{GENERATOR, Object};
use serde_json::Value;

use crate::api::{DeleteOptions, Failure, Part, PatchKind, Reply, Verb, WriteOptions};
use crate::simulation::objects::Sort;
use crate::simulation::port::{Answer, Question};
use crate::simulation::schedule::{LATEST, MERGE, MINUTE, Mix, SECOND};
use crate::simulation::truth::Moment;

use super::{Actor, Due, Fate, World};

/// After this a client gives up.
const PATIENCE: i64 = 10 * SECOND;

impl World {
    /// A question is on its way; what befalls it is drawn here.
    pub(super) fn dispatch(&mut self, at: usize, id: u64, mut question: Question) {
        let Some(epoch) = self.replicas.get(at).map(|replica| replica.epoch) else {
            return;
        };
        let write = question.is_write();
        if write {
            self.outcome.writes += 1;
        }
        if let Some(mutant) = self.orders.mutant {
            let machines = self.machines.clone();
            let given_up = self.gave_up && mutant.gives_up(&question);
            if given_up || !mutant.write(&mut question, &machines, self.outcome.writes) {
                // The bug: it is not done, and taken for done.
                let answer = self.pretend(&question);
                self.reply_after(5, at, epoch, id, answer);
                return;
            }
        }
        let latency = self.between(2, 40);
        if write && self.is_denied(&question) {
            self.trace(|| format!("   {} of capstan-{at} is forbidden", short(&question)));
            let creation = matches!(question, Question::Create(Object::Machine(_), _));
            self.gave_up |= creation && self.orders.mutant == Some(super::Mutant::DenialFinal);
            let answer = Err(refusal(403));
            return self.reply_after(latency, at, epoch, id, answer);
        }
        if let Question::Create(Object::Machine(_), machine) = &question {
            self.check_in_flight(at, machine);
        }
        let arrive = |question, lost, crash| Due::Arrive {
            replica: at,
            epoch,
            id,
            question,
            lost,
            crash,
        };
        if let Some((number, fate)) = self.orders.single
            && write
            && number == self.outcome.writes
        {
            self.trace(|| format!("   write {number} of capstan-{at}: {fate:?}"));
            match fate {
                Fate::CrashBefore => return self.kill(at),
                Fate::CrashAfter => return self.after_ms(latency, arrive(question, false, true)),
                Fate::ReplyLost => return self.after_ms(latency, arrive(question, true, false)),
                Fate::Conflict => {
                    let answer = Err(refusal(409));
                    return self.reply_after(latency, at, epoch, id, answer);
                }
                Fate::StaleCache => {
                    for sort in Sort::ALL {
                        self.freeze(at, sort, 10 * MINUTE);
                    }
                }
                Fate::StandStill => self.stand_still(at, 10 * MINUTE),
            }
        }
        let mix = self.schedule.mix;
        if self.calm || mix == Mix::default() {
            return self.after_ms(latency, arrive(question, false, false));
        }
        if self.strikes(mix.stall) {
            let long = self.between(MINUTE, 15 * MINUTE);
            self.stand_still(at, long);
        }
        if self.strikes(mix.slow) {
            let long = self.between(SECOND, MINUTE);
            self.trace(|| format!("   {} of capstan-{at} takes {}s", short(&question), long / SECOND));
            return self.after_ms(long, arrive(question, false, false));
        }
        if !write {
            if self.strikes(mix.read) {
                self.trace(|| format!("   a read of capstan-{at} fails"));
                let answer = Err(timeout());
                return self.reply_after(latency, at, epoch, id, answer);
            }
            return self.after_ms(latency, arrive(question, false, false));
        }
        if self.strikes(mix.refuse) {
            let codes = [409_u16, 429, 500, 503, 403, 422];
            let code = self.faults.pick(&codes).copied().unwrap_or(500);
            self.trace(|| format!("   {} of capstan-{at} is refused with {code}", short(&question)));
            let answer = Err(refusal(code));
            return self.reply_after(latency, at, epoch, id, answer);
        }
        if self.strikes(mix.drop) {
            self.trace(|| format!("   {} of capstan-{at} never arrives", short(&question)));
            let answer = Err(timeout());
            return self.reply_after(PATIENCE, at, epoch, id, answer);
        }
        if self.strikes(mix.lose) {
            self.trace(|| format!("   the answer to {} of capstan-{at} will be lost", short(&question)));
            return self.after_ms(latency, arrive(question, true, false));
        }
        if self.strikes(mix.late) {
            let delay = self.between(20 * SECOND, LATEST);
            self.trace(|| {
                format!(
                    "   {} of capstan-{at} will arrive {}s late",
                    short(&question),
                    delay / 1000
                )
            });
            let answer = Err(timeout());
            self.reply_after(PATIENCE, at, epoch, id, answer);
            let moments = self.moments_of(at, &question).cloned().unwrap_or_default();
            return self.after_ms(delay, Due::Straggle(at, question, moments));
        }
        if self.strikes(mix.crash_before) {
            self.trace(|| format!("   capstan-{at} is killed before {}", short(&question)));
            return self.kill(at);
        }
        let crash = self.strikes(mix.crash_after);
        if crash {
            self.trace(|| format!("   capstan-{at} will be killed after {}", short(&question)));
        }
        self.after_ms(latency, arrive(question, false, crash));
    }

    /// Whether Capstan may not write this now.
    fn is_denied(&self, question: &Question) -> bool {
        let sort = match question {
            Question::Create(what, _) | Question::Patch(what, ..) => place(what).0,
            Question::Delete(..) => Sort::Machine,
            _ => Sort::Set,
        };
        self.denied.get(sort.position()).is_some_and(|until| *until > self.now)
    }

    fn reply_after(&mut self, delay: i64, at: usize, epoch: u64, id: u64, answer: kube::Result<Answer>) {
        let due = Due::Reply {
            replica: at,
            epoch,
            id,
            answer,
        };
        self.after_ms(delay, due);
    }

    /// Whether a fault happens, unless it is spared.
    fn strikes(&mut self, share: u64) -> bool {
        if share == 0 || !self.faults.permille(share) {
            return false;
        }
        self.outcome.faults += 1;
        let number = self.outcome.faults;
        !self.orders.spared.contains(&number)
    }

    /// A request arrives that its sender gave up: it is judged by what was true when it was sent, and its sender, which
    /// may look at something else by now, does not hear of it.
    pub(super) fn straggle(&mut self, at: usize, question: &mut Question, then: Vec<Moment>) {
        let asked = question.clone();
        let now = self.moments_of(at, &asked).map(|now| std::mem::replace(now, then));
        let _unheard = self.answer(at, question);
        if let (Some(moments), Some(now)) = (self.moments_of(at, &asked), now) {
            *moments = now;
        }
    }

    /// What was true when the one who asks this looked.
    fn moments_of(&mut self, at: usize, question: &Question) -> Option<&mut Vec<Moment>> {
        let replica = self.replicas.get_mut(at)?;
        Some(match question {
            Question::Apply(..) => &mut replica.generating.moments,
            _ => &mut replica.moments,
        })
    }

    pub(super) fn arrive(&mut self, at: usize, epoch: u64, id: u64, question: &mut Question, lost: bool, crash: bool) {
        // What is on the wire arrives, whatever becomes of the sender.
        let mut answer = self.answer(at, question);
        if let Some(mutant) = self.orders.mutant {
            let cached = self.replicas.get_mut(at).map(|replica| replica.cache.view());
            self.gave_up |= matches!(&answer, Err(kube::Error::Api(status)) if mutant.is_final(status));
            mutant.answer(&mut answer, question, cached.as_deref());
        }
        let same = self.replicas.get(at).is_some_and(|replica| replica.epoch == epoch);
        if !same {
            return;
        }
        if crash {
            return self.kill(at);
        }
        let latency = self.between(2, 40);
        if lost {
            let answer = Err(timeout());
            return self.reply_after(PATIENCE, at, epoch, id, answer);
        }
        if let (Ok(_), Some(replica)) = (&answer, self.replicas.get_mut(at)) {
            match question {
                Question::Create(Object::Machine(name), _) | Question::Delete(name, ..) => {
                    replica.done.push(name.clone());
                }
                _ => {}
            }
        }
        self.reply_after(latency, at, epoch, id, answer);
    }

    /// Does what is asked; the object or patch in the question is used up by it.
    fn answer(&mut self, at: usize, question: &mut Question) -> kube::Result<Answer> {
        let actor = Actor::Replica(at);
        match question {
            Question::Set => {
                let moment = self.moment();
                if let Some(replica) = self.replicas.get_mut(at).filter(|_| self.schedule.generates) {
                    replica.generating.moments.push(moment);
                }
                Ok(Answer::Set(self.set.clone()))
            }
            Question::Machines => {
                let moment = self.moment();
                if let Some(replica) = self.replicas.get_mut(at) {
                    replica.moments.push(moment);
                }
                Ok(Answer::Machines(self.machines.values().cloned().collect()))
            }
            Question::Nodes => {
                let nodes = self.nodes.values().filter(|node| node.is_control_plane());
                Ok(Answer::Nodes(nodes.cloned().collect()))
            }
            Question::Node(name) => Ok(Answer::Node(self.nodes.get(name).cloned())),
            Question::Etcd => Ok(Answer::Operator(self.operators.get("etcd").cloned())),
            Question::Machine(name) => object(self.request(actor, Sort::Machine, name, Part::Main, Verb::Get)),
            Question::Create(what, new) => {
                let (sort, _) = place(what);
                let verb = Verb::Create(new.take(), WriteOptions::default());
                object(self.request(actor, sort, "", Part::Main, verb))
            }
            Question::Patch(what, status, patch) => {
                let (sort, name) = place(what);
                let part = if *status { Part::Status } else { Part::Main };
                let verb = Verb::Patch(MERGE, patch.take(), WriteOptions::default());
                object(self.request(actor, sort, name, part, verb))
            }
            Question::Apply(set, force) => {
                let options = WriteOptions {
                    manager: GENERATOR.to_owned(),
                    force: *force,
                    ..WriteOptions::default()
                };
                let verb = Verb::Patch(PatchKind::Apply, set.take(), options);
                object(self.request(Actor::Generator(at), Sort::Set, "cluster", Part::Main, verb))
            }
            Question::Delete(name, uid, version) => {
                let options = DeleteOptions {
                    uid: uid.clone(),
                    resource_version: version.clone(),
                    propagation: Some(capstan_core::model::Propagation::Background),
                    ..DeleteOptions::default()
                };
                object(self.request(actor, Sort::Machine, name, Part::Main, Verb::Delete(options)))
            }
        }
    }

    /// What an answer would look like if it had been done.
    fn pretend(&self, question: &Question) -> kube::Result<Answer> {
        let of = |sort: Sort, name: &str| {
            let (group, plural, namespace) = sort.place();
            let kind = self.api.kind_of(group, plural)?;
            let key = crate::api::Key {
                kind,
                namespace: namespace.to_owned(),
                name: name.to_owned(),
            };
            self.api.object(&key).cloned()
        };
        match question {
            Question::Patch(what, ..) => {
                let (sort, name) = place(what);
                of(sort, name).map(Answer::Object).ok_or_else(timeout)
            }
            _ => Ok(Answer::Gone),
        }
    }

    pub(super) fn reply(&mut self, at: usize, epoch: u64, id: u64, answer: kube::Result<Answer>) {
        let now = self.now;
        let Some(replica) = self.replicas.get_mut(at) else {
            return;
        };
        if replica.epoch != epoch || !replica.up {
            return;
        }
        if replica.hangs_until > now {
            let until = replica.hangs_until;
            self.at_ms(
                until,
                Due::Reply {
                    replica: at,
                    epoch,
                    id,
                    answer,
                },
            );
            return;
        }
        replica.port.answer(id, answer);
        self.poll(at);
        self.poll_generator(at);
    }
}

fn place(what: &Object) -> (Sort, &str) {
    match what {
        Object::Set(name) => (Sort::Set, name),
        Object::Machine(name) => (Sort::Machine, name),
        Object::ClusterOperator => (Sort::Operator, "control-plane-machine-set"),
    }
}

fn object(reply: Result<Reply, Failure>) -> kube::Result<Answer> {
    match reply {
        Ok(Reply::Object { object, .. }) => Ok(Answer::Object(object)),
        Ok(Reply::List(_) | Reply::Done(_)) => Ok(Answer::Gone),
        Err(failure) => Err(api_error(&failure.status())),
    }
}

fn api_error(status: &Value) -> kube::Error {
    match serde_json::from_value(status.clone()) {
        Ok(status) => kube::Error::Api(status),
        Err(error) => kube::Error::SerdeError(error),
    }
}

fn refusal(code: u16) -> kube::Error {
    let reason = match code {
        409 => "Conflict",
        429 => "TooManyRequests",
        403 => "Forbidden",
        422 => "Invalid",
        503 => "ServiceUnavailable",
        _ => "InternalError",
    };
    api_error(&Failure::new(code, reason, "it is made so by the simulation").status())
}

fn timeout() -> kube::Error {
    kube::Error::Service("the connection broke".into())
}

fn short(question: &Question) -> String {
    match question {
        Question::Create(what, _) => format!("the creation of {:?}", place(what).1),
        Question::Patch(what, true, _) => format!("the status of {:?}", place(what).1),
        Question::Patch(what, false, _) => format!("the patch of {:?}", place(what).1),
        Question::Delete(name, ..) => format!("the deletion of {name:?}"),
        Question::Apply(..) => "the generated set".to_owned(),
        other => format!("{other:?}"),
    }
}
