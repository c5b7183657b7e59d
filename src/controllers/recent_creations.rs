//! The creations that this process is about to allow.
//!
//! Two users can create both objects of a pair at the same time. Neither object is stored while the
//! other creation is reviewed, so a read finds neither. This register orders the two reviews: the
//! creation that was registered later must not count the other object as absent. It knows only the
//! reviews of this process.

use std::collections::BTreeMap;
use std::time::Duration;

use capstan_core::authority::live::LiveRead;
use capstan_core::authority::spec::{Api, Kind};
use tokio::time::Instant;

/// How long the API server may take to store or refuse an object after its first review.
const PENDING: Duration = Duration::from_secs(10);

/// The most creations that are registered. Callers of the webhook are not authenticated, so the
/// register must not grow without bound. Further creations are judged by the read alone.
const MOST: usize = 1024;

type Key = (Api, Kind, String);

#[derive(Debug)]
struct Creation {
    order: u64,
    last: Instant,
}

/// The register.
#[derive(Debug, Default)]
pub(super) struct RecentCreations {
    creations: BTreeMap<Key, Creation>,
    orders: u64,
}

/// The object that is created beside the object of a read.
fn created(read: &LiveRead) -> Key {
    (read.api.other(), read.kind.mirrored_kind(), read.name.clone())
}

impl RecentCreations {
    /// Registers the creation that a read belongs to, and returns its place in the order. A
    /// creation that is reviewed again keeps its place.
    pub(super) fn register(&mut self, read: &LiveRead, now: Instant) -> u64 {
        self.creations.retain(|_, creation| now < creation.last + PENDING);
        if let Some(creation) = self.creations.get_mut(&created(read)) {
            creation.last = now;
            return creation.order;
        }
        self.orders += 1;
        let order = self.orders;
        if read.is_stored && self.creations.len() < MOST {
            self.creations.insert(created(read), Creation { order, last: now });
        }
        order
    }

    /// Whether the object of the read may be created by an earlier creation.
    pub(super) fn may_exist(&self, read: &LiveRead, order: u64, now: Instant) -> bool {
        let key = (read.api, read.kind.mirrored_kind(), read.name.clone());
        let creation = self.creations.get(&key);
        creation.is_some_and(|creation| creation.order < order && now < creation.last + PENDING)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(api: Api, name: &str) -> LiveRead {
        LiveRead {
            api,
            kind: Kind::Machine,
            namespace: String::new(),
            name: name.to_owned(),
            is_stored: true,
        }
    }

    #[test]
    fn h2_of_two_creations_at_the_same_time_the_later_one_waits() {
        let (mut recent, now) = (RecentCreations::default(), Instant::now());
        let (first, second) = (read(Api::ClusterApi, "a"), read(Api::MachineApi, "a"));
        let orders = (recent.register(&first, now), recent.register(&second, now));
        assert!(!recent.may_exist(&first, orders.0, now), "the first creation continues");
        assert!(recent.may_exist(&second, orders.1, now));
        // The second review of the same creation keeps its place.
        assert_eq!(recent.register(&first, now), orders.0);
        let other = read(Api::MachineApi, "b");
        let order = recent.register(&other, now);
        assert!(!recent.may_exist(&other, order, now));
        assert!(!recent.may_exist(&second, orders.1, now + PENDING));
    }

    #[test]
    fn a_dry_run_and_a_full_register_delay_no_other_creation() {
        let (mut recent, now) = (RecentCreations::default(), Instant::now());
        let dry_run = LiveRead {
            is_stored: false,
            ..read(Api::ClusterApi, "a")
        };
        recent.register(&dry_run, now);
        let second = read(Api::MachineApi, "a");
        let order = recent.register(&second, now);
        assert!(!recent.may_exist(&second, order, now));
        for index in 0..2 * MOST {
            recent.register(&read(Api::ClusterApi, &format!("m-{index}")), now);
        }
        assert_eq!(recent.creations.len(), MOST);
        recent.register(&second, now + PENDING);
        assert_eq!(recent.creations.len(), 1, "old creations are forgotten");
    }
}
