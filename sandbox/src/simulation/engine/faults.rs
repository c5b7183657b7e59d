//! The faults of requests: how often they occur, and which one a request meets.
//!
//! The simulation and the tests that run whole processes (`tests/served`) draw their faults here,
//! so that both mean the same by each name. The module only draws a fault. The sender of the
//! request causes it. It must not use any random source but the one that it is given.

use serde::{Deserialize, Serialize};

use super::units::{MINUTE, SECOND};
use crate::random::Random;

/// A client waits this long for an answer, in milliseconds, and then gives up.
pub const CLIENT_TIMEOUT: i64 = 10 * SECOND;
/// The API server executes a delayed request at most this long after it was sent, in milliseconds.
pub const LATEST: i64 = 3 * MINUTE;
/// The HTTP status codes of refusals that no rule explains.
pub const REFUSALS: [u16; 6] = [409, 429, 500, 503, 403, 422];

/// How often requests meet a fault, in thousandths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FaultRates {
    /// The API server answers a write with an error and does not execute it.
    pub refuse: u64,
    /// A write never arrives.
    pub drop: u64,
    /// A write is executed, and its answer is lost.
    pub lose: u64,
    /// A write is executed long after its client gave up.
    pub late: u64,
    /// The process is killed before a write is executed.
    pub crash_before: u64,
    /// The process is killed after a write is executed.
    pub crash_after: u64,
    /// A read fails.
    pub read: u64,
    /// The process stops between two requests, for longer than the election allows.
    pub stall: u64,
    /// A request takes up to a minute, and its client waits.
    pub slow: u64,
}

impl FaultRates {
    /// Random rates: each fault occurs never, or up to `most` times in a thousand requests.
    pub(crate) fn drawn(random: &mut Random, most: u64) -> Self {
        let mut rate = || {
            if random.permille(500) {
                random.between(5, most)
            } else {
                0
            }
        };
        Self {
            refuse: rate(),
            drop: rate(),
            lose: rate(),
            late: rate(),
            crash_before: rate(),
            crash_after: rate(),
            read: rate(),
            stall: rate(),
            slow: rate(),
        }
    }
}

/// What happens to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RequestFault {
    /// It is answered with this HTTP status code and not executed.
    Refused(u16),
    /// It never arrives, and its client gives up after [`CLIENT_TIMEOUT`].
    Dropped,
    /// It is executed, and its client gives up after [`CLIENT_TIMEOUT`] without an answer.
    ReplyLost,
    /// Its client gives up after [`CLIENT_TIMEOUT`], and it is executed this many milliseconds
    /// after it was sent.
    Late(i64),
    /// It is executed this many milliseconds after it was sent, and its client waits.
    Slow(i64),
    /// The read fails without an answer.
    ReadFailed,
    /// The process is killed before the request is sent.
    CrashBefore,
    /// The process is killed after the request is executed, before the answer arrives.
    CrashAfter,
}

/// The random source of faults.
pub trait Dice {
    /// Whether a fault of this rate, in thousandths, occurs.
    fn occurs(&mut self, rate: u64) -> bool;
    /// A time between two, in milliseconds.
    fn between(&mut self, least: i64, most: i64) -> i64;
    /// A number below a bound.
    fn below(&mut self, bound: usize) -> usize;
}

impl FaultRates {
    /// Whether no request meets a fault.
    pub fn is_zero(&self) -> bool {
        *self == Self::default()
    }

    /// How long the process stops before this request, in milliseconds, if it stops.
    pub fn stall(&self, dice: &mut impl Dice) -> Option<i64> {
        dice.occurs(self.stall).then(|| dice.between(MINUTE, 15 * MINUTE))
    }

    /// The fault that a request meets, if it meets one.
    pub fn draw(&self, dice: &mut impl Dice, is_write: bool) -> Option<RequestFault> {
        if dice.occurs(self.slow) {
            return Some(RequestFault::Slow(dice.between(SECOND, MINUTE)));
        }
        if !is_write {
            return dice.occurs(self.read).then_some(RequestFault::ReadFailed);
        }
        if dice.occurs(self.refuse) {
            let code = REFUSALS.get(dice.below(REFUSALS.len())).copied();
            return Some(RequestFault::Refused(code.unwrap_or(500)));
        }
        if dice.occurs(self.drop) {
            return Some(RequestFault::Dropped);
        }
        if dice.occurs(self.lose) {
            return Some(RequestFault::ReplyLost);
        }
        if dice.occurs(self.late) {
            return Some(RequestFault::Late(dice.between(20 * SECOND, LATEST)));
        }
        if dice.occurs(self.crash_before) {
            return Some(RequestFault::CrashBefore);
        }
        dice.occurs(self.crash_after).then_some(RequestFault::CrashAfter)
    }

    /// The higher of both rates, fault by fault.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self {
            refuse: self.refuse.max(other.refuse),
            drop: self.drop.max(other.drop),
            lose: self.lose.max(other.lose),
            late: self.late.max(other.late),
            crash_before: self.crash_before.max(other.crash_before),
            crash_after: self.crash_after.max(other.crash_after),
            read: self.read.max(other.read),
            stall: self.stall.max(other.stall),
            slow: self.slow.max(other.slow),
        }
    }
}

/// The reason of the `Status` that belongs to an HTTP status code.
pub fn reason(code: u16) -> &'static str {
    match code {
        409 => "Conflict",
        429 => "TooManyRequests",
        403 => "Forbidden",
        422 => "Invalid",
        503 => "ServiceUnavailable",
        410 => "Expired",
        _ => "InternalError",
    }
}
