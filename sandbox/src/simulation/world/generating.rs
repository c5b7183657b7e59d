//! The generator of sets in each replica: the one that ships, beside the controller and on the same caches.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use capstan::controllers::{Generator, ReconcileResult};

use crate::simulation::port::Port;
use crate::simulation::schedule::SECOND;
use crate::simulation::truth::Moment;

use super::replicas::BASE;
use super::{Due, World};

type Running = Pin<Box<dyn Future<Output = (Generator<Port>, ReconcileResult)>>>;

/// The generator of a replica.
#[derive(Default)]
pub(super) struct Generating {
    idle: Option<Generator<Port>>,
    running: Option<Running>,
    /// Something changed while it was busy.
    again: bool,
    /// Only the last wake counts.
    ticket: u64,
    tries: u32,
    /// What was true when it looked, and when it read live.
    pub(super) moments: Vec<Moment>,
}

impl Generating {
    /// Of a process that has just begun. Its questions go the way of the controller's.
    pub(super) fn start(&mut self, port: &Port) {
        self.end();
        self.idle = Some(Generator::new(port.clone(), "capstan".to_owned()));
        self.tries = 0;
    }

    /// Of a process that has ended.
    pub(super) fn end(&mut self) {
        self.idle = None;
        self.running = None;
        self.again = false;
    }
}

impl World {
    pub(super) fn wake_generator_at(&mut self, at: usize, time: i64) {
        if !self.schedule.generates {
            return;
        }
        let Some(replica) = self.replicas.get_mut(at) else {
            return;
        };
        replica.generating.ticket += 1;
        let ticket = replica.generating.ticket;
        self.at_ms(time, Due::WakeGenerator(at, ticket));
    }

    pub(super) fn wake_generator(&mut self, at: usize, ticket: u64) {
        let last = self.replicas.get(at).map(|replica| replica.generating.ticket);
        if last == Some(ticket) {
            self.generate(at);
        }
    }

    /// The generator takes a turn, if its replica leads.
    pub(super) fn generate(&mut self, at: usize) {
        let (now, generates) = (self.now, self.schedule.generates);
        let moment = self.moment();
        let Some(replica) = self.replicas.get_mut(at) else {
            return;
        };
        if !generates || !replica.up || !replica.leads {
            return;
        }
        if replica.generating.running.is_some() {
            replica.generating.again = true;
            return;
        }
        if replica.hangs_until > now {
            let until = replica.hangs_until;
            self.wake_generator_at(at, until);
            return;
        }
        let Some(mut generator) = replica.generating.idle.take() else {
            return;
        };
        let mut view = replica.cache.view();
        if let Some(mutant) = self.orders.mutant {
            view = mutant.view_of_generator(&view);
        }
        replica.generating.moments = vec![moment];
        replica.generating.running = Some(Box::pin(async move {
            let turn = generator.turn(&view).await;
            (generator, turn)
        }));
        self.poll_generator(at);
    }

    pub(super) fn poll_generator(&mut self, at: usize) {
        let (time, now) = (self.local_time(at), self.now);
        let Some(replica) = self.replicas.get_mut(at) else {
            return;
        };
        let Some(running) = replica.generating.running.as_mut() else {
            return;
        };
        replica
            .port
            .set_time(time, *BASE + Duration::from_millis(now.unsigned_abs()));
        let polled = running.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        match polled {
            Poll::Pending => {
                for (id, question) in replica.port.asked() {
                    self.dispatch(at, id, question);
                }
            }
            Poll::Ready((generator, turn)) => {
                replica.generating.running = None;
                replica.generating.idle = Some(generator);
                self.generated(at, turn);
            }
        }
    }

    /// A turn has ended, and the next is planned.
    fn generated(&mut self, at: usize, turn: ReconcileResult) {
        let now = self.now;
        let Some(Generating { again, tries, .. }) = self.replicas.get_mut(at).map(|replica| &mut replica.generating)
        else {
            return;
        };
        let mut next = None;
        if std::mem::take(again) {
            next = Some(now);
        }
        if turn.failed {
            // As the shell does, without its jitter.
            let pause = now + (100_i64 << (*tries).min(9)).min(30 * SECOND);
            *tries += 1;
            next = Some(next.map_or(pause, |next| next.min(pause)));
        } else if turn.looked {
            *tries = 0;
        }
        if let Some(behind) = turn.behind {
            let until = i64::try_from(behind.duration_since(*BASE).as_millis()).unwrap_or(i64::MAX);
            next = Some(next.map_or(until, |next| next.min(until)));
        }
        if let Some(next) = next {
            self.wake_generator_at(at, next.max(now + 1));
        }
    }
}
