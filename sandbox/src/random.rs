//! Reproducible random numbers (SplitMix64). A seed gives the same numbers on every machine.

/// A stream of random numbers, which its seed determines.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The stream of a seed.
    pub fn new(seed: u64) -> Self {
        let mut random = Self(seed ^ 0x6a09_e667_f3bc_c909);
        // The first step separates the streams of similar seeds.
        random.next();
        random
    }

    /// A new stream that is seeded from this one. Drawing from the new stream does not affect this
    /// one.
    #[must_use]
    pub fn branch(&mut self) -> Self {
        Self::new(self.next())
    }

    /// The next number.
    #[expect(
        clippy::should_implement_trait,
        reason = "the stream is infinite, and an iterator would return an Option"
    )]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.0;
        value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ (value >> 31)
    }

    /// A number below a bound; 0 for the bound 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.next() % bound }
    }

    /// A number in a range, both ends included.
    pub fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.below(most.saturating_sub(least) + 1)
    }

    /// True with a probability of `share` in a thousand.
    pub fn permille(&mut self, share: u64) -> bool {
        self.below(1000) < share
    }

    /// An item of a list; `None` if the list is empty.
    pub fn pick<'l, T>(&mut self, list: &'l [T]) -> Option<&'l T> {
        let at = usize::try_from(self.below(list.len() as u64)).ok()?;
        list.get(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_stream_on_every_machine() {
        let mut random = Random::new(7);
        let drawn = [random.next(), random.next(), random.next()];
        assert_eq!(
            drawn,
            [
                7_737_690_531_801_577_652,
                12_003_608_818_182_598_301,
                6_918_291_745_373_905_263
            ]
        );
    }
}
