//! The choices that a schedule does not contain: latencies, the lag of caches, and the faults that
//! requests meet at their rates.
//!
//! Every choice comes from the seed of the schedule. A key names the actor, the object, and the
//! purpose of a draw. The module must not use any other source.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::random::Random;

/// How choices are drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Draws {
    /// One after the other from one stream, so that every draw changes the later ones. The
    /// schedules of seeds are run in this way, so that a seed stays the same run.
    #[default]
    InOrder,
    /// Each from a hash of the seed, its key, and the number of earlier draws with this key, so
    /// that a change in one place leaves the draws of other actors alone. Serialized and mutated
    /// schedules are run in this way.
    ByKey,
}

/// The source of the choices of one world.
pub(super) struct Chooser {
    seed: u64,
    draws: Draws,
    /// Times.
    stream: Random,
    /// Faults.
    faults: Random,
    /// The number of draws by key.
    counts: BTreeMap<u64, u64>,
}

impl Chooser {
    pub(super) fn new(seed: u64, draws: Draws) -> Self {
        let mut stream = Random::new(seed);
        let faults = stream.branch();
        Self {
            seed,
            draws,
            stream,
            faults,
            counts: BTreeMap::new(),
        }
    }

    /// A number between two, both included.
    pub(super) fn between(&mut self, key: &[&str], least: u64, most: u64) -> u64 {
        match self.keyed(key) {
            Some(mut random) => random.between(least, most),
            None => self.stream.between(least, most),
        }
    }

    /// Whether a fault of this rate, in thousandths, occurs.
    pub(super) fn fault(&mut self, key: &[&str], rate: u64) -> bool {
        match self.keyed(key) {
            Some(mut random) => random.permille(rate),
            None => self.faults.permille(rate),
        }
    }

    /// A number below a bound, for a fault.
    pub(super) fn fault_below(&mut self, key: &[&str], bound: u64) -> u64 {
        match self.keyed(key) {
            Some(mut random) => random.below(bound),
            None => self.faults.below(bound),
        }
    }

    /// The stream of the next draw with a key.
    fn keyed(&mut self, key: &[&str]) -> Option<Random> {
        if self.draws == Draws::InOrder {
            return None;
        }
        let key = hash(key);
        let count = self.counts.entry(key).or_default();
        *count += 1;
        Some(Random::new(
            self.seed ^ key.wrapping_add(count.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
        ))
    }
}

/// A hash of words (FNV-1a).
fn hash(words: &[&str]) -> u64 {
    let bytes = words.iter().flat_map(|word| word.bytes().chain([0]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_draw_by_key_does_not_depend_on_other_draws() {
        let draw = |chooser: &mut Chooser, key: &str| chooser.between(&["actor", key, "time"], 0, 1_000_000);
        let mut alone = Chooser::new(7, Draws::ByKey);
        let expected = [draw(&mut alone, "a"), draw(&mut alone, "a")];
        assert_ne!(expected[0], expected[1]);
        let mut beside = Chooser::new(7, Draws::ByKey);
        let first = draw(&mut beside, "a");
        draw(&mut beside, "b");
        assert!(!beside.fault(&["actor", "a", "fault"], 0));
        assert_eq!([first, draw(&mut beside, "a")], expected);
        assert_ne!(draw(&mut Chooser::new(8, Draws::ByKey), "a"), expected[0]);
    }

    #[test]
    fn a_draw_in_order_is_the_next_one_of_the_stream() {
        let mut chooser = Chooser::new(7, Draws::InOrder);
        let mut random = Random::new(7);
        let _faults = random.branch();
        assert_eq!(chooser.between(&["any"], 0, 99), random.between(0, 99));
        assert_eq!(chooser.between(&["other"], 0, 99), random.between(0, 99));
    }
}
