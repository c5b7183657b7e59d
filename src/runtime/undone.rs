//! Creations and deletions that other programs undo: they delete soon what Capstan created, or
//! create again what Capstan deleted.
//!
//! Without a delay, Capstan and the other program would create and delete machines without end. The
//! first repetitions have no delay, so that a user who deletes a new machine gets another one at
//! once. What is known belongs to one process: after a restart the delays begin again (decision 95,
//! `docs/decisions/0095-writes-that-others-undo.md`).
//!
//! It must never count an object that Capstan itself deleted as lost, nor one that Capstan itself
//! created as returned.

use std::collections::BTreeMap;
use std::time::Duration;

use capstan_core::model::ObjectRef;
use tokio::time::Instant;

/// An object that is deleted later than this after its creation is not lost, and one that is
/// created later than this after its deletion has not returned.
const YOUNG: Duration = Duration::from_secs(600);
/// From so many on, the next step waits. After [`YOUNG`] without another one, the count begins
/// again.
const MANY: u32 = 3;
/// The longest delay.
const LONGEST: Duration = Duration::from_secs(300);

/// What others undid a short time ago.
#[derive(Debug, Default)]
pub(super) struct Undone {
    created: BTreeMap<ObjectRef, Instant>,
    /// The uids of the objects that Capstan deleted.
    deleted: BTreeMap<ObjectRef, (String, Instant)>,
    /// The created objects that others deleted.
    lost: Repetition,
    /// The deleted objects that others created again.
    returned: Repetition,
}

/// How often the same happened in a row.
#[derive(Debug, Default)]
struct Repetition {
    count: u32,
    /// The last object, and when it was noticed.
    last: Option<(ObjectRef, Instant)>,
}

impl Repetition {
    fn note(&mut self, object: &ObjectRef, now: Instant) {
        self.count = self.count.saturating_add(1);
        self.last = Some((object.clone(), now));
    }

    fn forget_old(&mut self, now: Instant) {
        let last = self.last.as_ref();
        if last.is_some_and(|(_, at)| now.duration_since(*at) >= YOUNG) {
            *self = Self::default();
        }
    }

    /// The last object, if the next step waits because of it.
    fn defers(&self, now: Instant) -> Option<&ObjectRef> {
        let (object, at) = self.last.as_ref()?;
        let more = self.count.checked_sub(MANY)?;
        let delay = Duration::from_secs(10).saturating_mul(1 << more.min(8)).min(LONGEST);
        (now.duration_since(*at) < delay).then_some(object)
    }
}

impl Undone {
    /// Capstan created an object. `counts`: its loss counts.
    pub(super) fn created(&mut self, object: &ObjectRef, counts: bool, now: Instant) {
        self.deleted.remove(object);
        if counts {
            self.created.insert(object.clone(), now);
        }
    }

    /// Capstan requested the deletion of an object. `uid`: empty if it is not known.
    pub(super) fn deleted(&mut self, object: &ObjectRef, uid: &str, now: Instant) {
        self.created.remove(object);
        self.deleted.insert(object.clone(), (uid.to_owned(), now));
    }

    /// Notes what others undid since the last call. `uid` is that of an object that exists and is
    /// not being deleted.
    pub(super) fn observe<'v>(&mut self, now: Instant, uid: impl Fn(&ObjectRef) -> Option<&'v str>) {
        self.lost.forget_old(now);
        self.returned.forget_old(now);
        let is_young = |at: &Instant| now.duration_since(*at) < YOUNG;
        let lost = self
            .created
            .extract_if(.., |object, at| is_young(at) && uid(object).is_none());
        for (object, _) in lost {
            self.lost.note(&object, now);
        }
        let returned = self.deleted.extract_if(.., |object, (deleted, at)| {
            let is_other = |uid: &str| !deleted.is_empty() && uid != *deleted;
            is_young(at) && uid(object).is_some_and(is_other)
        });
        for (object, _) in returned {
            self.returned.note(&object, now);
        }
        self.created.retain(|_, at| is_young(at));
        self.deleted.retain(|_, (_, at)| is_young(at));
    }

    /// The object that was lost last, if the next creation waits because of it.
    pub(super) fn defers_creation(&self, now: Instant) -> Option<&ObjectRef> {
        self.lost.defers(now)
    }

    /// The object that returned last, if the next deletion waits because of it.
    pub(super) fn defers_deletion(&self, now: Instant) -> Option<&ObjectRef> {
        self.returned.defers(now)
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

    /// How many seconds pass until nothing is deferred.
    async fn delay(is_deferred: impl Fn() -> bool) -> u64 {
        let mut delay = 0;
        while is_deferred() {
            tokio::time::advance(Duration::from_secs(1)).await;
            delay += 1;
        }
        delay
    }

    /// Creates things that others delete, and returns the delay after the last one.
    async fn lose(undone: &mut Undone, numbers: std::ops::Range<u32>) -> u64 {
        for number in numbers {
            undone.created(&thing(number), true, Instant::now());
            undone.observe(Instant::now(), |_| Some("u"));
            undone.observe(Instant::now(), |_| None);
        }
        delay(|| undone.defers_creation(Instant::now()).is_some()).await
    }

    #[tokio::test(start_paused = true)]
    async fn v229_the_delays_grow_while_others_delete_what_is_created() {
        let mut undone = Undone::default();
        let mut delays = vec![lose(&mut undone, 0..2).await];
        for number in 2..9 {
            delays.push(lose(&mut undone, number..number + 1).await);
        }
        assert_eq!(delays, [0, 10, 20, 40, 80, 160, 300, 300]);
        tokio::time::advance(YOUNG).await;
        undone.observe(Instant::now(), |_| Some("u"));
        assert_eq!(lose(&mut undone, 9..10).await, 0, "the losses are old");
    }

    #[tokio::test(start_paused = true)]
    async fn v229_what_capstan_deletes_and_what_lived_for_long_is_not_lost() {
        let mut undone = Undone::default();
        for number in 0..9 {
            undone.created(&thing(number), true, Instant::now());
        }
        for number in 0..4 {
            undone.deleted(&thing(number), "u", Instant::now());
        }
        tokio::time::advance(YOUNG).await;
        undone.observe(Instant::now(), |_| None);
        assert_eq!(undone.defers_creation(Instant::now()), None);
    }

    #[tokio::test(start_paused = true)]
    async fn v237_the_delays_grow_while_others_create_again_what_is_deleted() {
        let mut undone = Undone::default();
        let mut delays = Vec::new();
        for round in 0..6 {
            let (old, new) = (round.to_string(), (round + 1).to_string());
            undone.deleted(&thing(round % 2), &old, Instant::now());
            // The object is being deleted, then it is gone, then there is another one.
            undone.observe(Instant::now(), |_| Some(old.as_str()));
            undone.observe(Instant::now(), |_| None);
            undone.observe(Instant::now(), |_| Some(new.as_str()));
            delays.push(delay(|| undone.defers_deletion(Instant::now()).is_some()).await);
        }
        assert_eq!(delays, [0, 0, 10, 20, 40, 80]);
        assert_eq!(undone.defers_creation(Instant::now()), None);
    }

    #[tokio::test(start_paused = true)]
    async fn v237_what_capstan_creates_again_has_not_returned() {
        let mut undone = Undone::default();
        for number in 0..9 {
            undone.deleted(&thing(number), "old", Instant::now());
            undone.created(&thing(number), number % 2 == 0, Instant::now());
            undone.observe(Instant::now(), |_| Some("new"));
        }
        assert_eq!(undone.defers_deletion(Instant::now()), None);
    }
}
