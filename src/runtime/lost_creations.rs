//! Objects that others delete soon after Capstan created them.
//!
//! Without a delay, Capstan and the other program would create and delete machines without end. The
//! first losses have no delay, so that a user who deletes a new machine gets another one at once.
//! What is known belongs to one process: after a restart the delays begin again (decision 95,
//! `docs/decisions/0095-writes-that-others-undo.md`).
//!
//! It must never count an object that Capstan itself deleted.

use std::collections::BTreeMap;
use std::time::Duration;

use capstan_core::model::ObjectRef;
use tokio::time::Instant;

/// An object that is deleted later than this after its creation is not lost.
const YOUNG: Duration = Duration::from_secs(600);
/// From so many losses on, the next creation waits. After [`YOUNG`] without a loss, the count
/// begins again.
const MANY: u32 = 3;
/// The longest delay.
const LONGEST: Duration = Duration::from_secs(300);

/// The objects that were created a short time ago, and those that others deleted.
#[derive(Debug, Default)]
pub(super) struct LostCreations {
    created: BTreeMap<ObjectRef, Instant>,
    /// How many were lost in a row.
    count: u32,
    /// The last one that was lost, and when its loss was noticed.
    last: Option<(ObjectRef, Instant)>,
}

impl LostCreations {
    /// An object was created.
    pub(super) fn created(&mut self, object: &ObjectRef, now: Instant) {
        self.created.insert(object.clone(), now);
    }

    /// Capstan requested the deletion of an object.
    pub(super) fn deleted(&mut self, object: &ObjectRef) {
        self.created.remove(object);
    }

    /// Notes which of the created objects others deleted.
    pub(super) fn observe(&mut self, now: Instant, stays: impl Fn(&ObjectRef) -> bool) {
        if self
            .last
            .as_ref()
            .is_some_and(|(_, at)| now.duration_since(*at) >= YOUNG)
        {
            (self.count, self.last) = (0, None);
        }
        let is_lost = |object: &ObjectRef, at: &Instant| now.duration_since(*at) < YOUNG && !stays(object);
        let lost = self.created.extract_if(.., |object, at| is_lost(object, at));
        for (object, _) in lost {
            self.count = self.count.saturating_add(1);
            self.last = Some((object, now));
        }
        self.created.retain(|_, at| now.duration_since(*at) < YOUNG);
    }

    /// The object that was lost last, if the next creation waits because of it.
    pub(super) fn defers(&self, now: Instant) -> Option<&ObjectRef> {
        let (object, at) = self.last.as_ref()?;
        let more = self.count.checked_sub(MANY)?;
        let delay = Duration::from_secs(10).saturating_mul(1 << more.min(8)).min(LONGEST);
        (now.duration_since(*at) < delay).then_some(object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thing(number: u32) -> ObjectRef {
        ObjectRef {
            group: "example.org".into(),
            kind: "Thing".into(),
            namespace: "home".to_owned(),
            name: format!("thing-{number}"),
        }
    }

    /// Creates things that others delete, and returns the delay after the last one.
    async fn lose(lost: &mut LostCreations, numbers: std::ops::Range<u32>) -> Duration {
        for number in numbers {
            lost.created(&thing(number), Instant::now());
            lost.observe(Instant::now(), |_| true);
            lost.observe(Instant::now(), |_| false);
        }
        let mut delay = Duration::ZERO;
        while lost.defers(Instant::now()).is_some() {
            tokio::time::advance(Duration::from_secs(1)).await;
            delay += Duration::from_secs(1);
        }
        delay
    }

    #[tokio::test(start_paused = true)]
    async fn v229_the_delays_grow_while_others_delete_what_is_created() {
        let mut lost = LostCreations::default();
        let mut delays = vec![lose(&mut lost, 0..2).await.as_secs()];
        for number in 2..9 {
            delays.push(lose(&mut lost, number..number + 1).await.as_secs());
        }
        assert_eq!(delays, [0, 10, 20, 40, 80, 160, 300, 300]);
        tokio::time::advance(YOUNG).await;
        lost.observe(Instant::now(), |_| true);
        assert_eq!(lose(&mut lost, 9..10).await.as_secs(), 0, "the losses are old");
    }

    #[tokio::test(start_paused = true)]
    async fn v229_what_capstan_deletes_and_what_lived_for_long_is_not_lost() {
        let mut lost = LostCreations::default();
        for number in 0..9 {
            lost.created(&thing(number), Instant::now());
        }
        for number in 0..4 {
            lost.deleted(&thing(number));
        }
        tokio::time::advance(YOUNG).await;
        lost.observe(Instant::now(), |_| false);
        assert_eq!(lost.defers(Instant::now()), None);
    }
}
