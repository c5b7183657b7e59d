//! Simulates the rotation with replicas and API servers that lag, restart and lose objects.

use super::{Authority, Bundle, DAY, Held, Leaf, MOST_ADOPTED, Profile, Step, next};
use proptest::prelude::*;
use std::collections::BTreeSet;

/// A Secret and two webhook configurations, each with the number of its last change, and the
/// history of both, since an API server or a replica may still use an earlier version.
struct Cluster {
    now: i64,
    profile: Profile,
    secret: Option<Held>,
    secret_version: u64,
    bundles: Vec<(u64, Bundle)>,
    /// The history of the bundles: index, time, contents.
    trusts: Vec<(usize, i64, BTreeSet<String>)>,
    /// The history of the serving certificate: time, issuer, end.
    leaves: Vec<(i64, String, i64)>,
    authorities: u64,
}

/// One replica with the versions that it read last.
#[derive(Clone, Default)]
struct Replica {
    bundles: Vec<(u64, Bundle)>,
    secret: Option<(Option<Held>, u64)>,
    /// The end of the validity of the certificate that it serves.
    serves_until: Option<i64>,
}

impl Replica {
    /// Serves the certificate of the Secret, if there is one. A certificate that the replica may
    /// not serve yet changes nothing here, because the replica has another one.
    fn serve(&mut self, secret: Option<&Held>) {
        let leaf = secret.and_then(|held| held.leaf.as_ref());
        self.serves_until = leaf.map(|leaf| leaf.not_after).max(self.serves_until);
    }
}

impl Cluster {
    fn new(bundles: usize) -> Self {
        let profile = Profile::default();
        Self {
            now: 1_800_000_000,
            profile,
            secret: None,
            secret_version: 0,
            bundles: vec![(0, Bundle::default()); bundles],
            trusts: Vec::new(),
            leaves: Vec::new(),
            authorities: 0,
        }
    }

    /// Executes the step that the replica decided, unless an object has changed since it was read.
    /// Returns `None` if the replica has not read the Secret yet.
    fn apply(&mut self, replica: &mut Replica, skew: i64) -> Option<Step> {
        let (held, secret_version) = replica.secret.take()?;
        let now = self.now + skew;
        let bundles: Vec<_> = replica.bundles.iter().map(|(_, bundle)| bundle.clone()).collect();
        let serves = replica.serves_until.is_some_and(|end| end > now);
        let step = next(now, &self.profile, &held.clone().unwrap_or_default(), &bundles, serves);
        if step == Step::Publish {
            let target = held.unwrap_or_default().target();
            for (index, (version, bundle)) in replica.bundles.iter().enumerate() {
                if self.bundles[index].0 == *version && (bundle.has_other_content || bundle.trusted != target) {
                    self.set_bundle(index, target);
                    break; // The replica writes one bundle and crashes.
                }
            }
        } else if step != Step::Nothing && secret_version == self.secret_version {
            self.secret = Some(self.change(held.unwrap_or_default(), &step, now));
            self.secret_version += 1;
            replica.serve(self.secret.as_ref());
        }
        Some(step)
    }

    fn set_bundle(&mut self, index: usize, trusted: BTreeSet<String>) {
        self.trusts.push((index, self.now, trusted.clone()));
        self.bundles[index].0 += 1;
        self.bundles[index].1 = Bundle {
            trusted,
            has_other_content: false,
        };
    }

    fn change(&mut self, mut held: Held, step: &Step, now: i64) -> Held {
        match step {
            Step::Adopt(ids) => {
                for id in ids {
                    let not_after = now + 300 * DAY;
                    held.authorities.insert(
                        0,
                        Authority {
                            id: id.clone(),
                            not_after,
                            signs: false,
                            added: now,
                            published: None,
                        },
                    );
                }
            }
            Step::AddAuthority => {
                self.authorities += 1;
                held.authorities.push(Authority {
                    id: format!("ca-{}", self.authorities),
                    not_after: now + self.profile.authority_lifetime,
                    signs: true,
                    added: now,
                    published: None,
                });
            }
            Step::Record { id, published } => {
                held.authorities
                    .iter_mut()
                    .find(|authority| authority.id == *id)
                    .unwrap()
                    .published = *published;
            }
            Step::IssueLeaf { issuer, .. } => {
                let authority = held
                    .authorities
                    .iter()
                    .find(|authority| authority.id == *issuer)
                    .unwrap();
                assert!(authority.signs);
                let not_after = (now + self.profile.leaf_lifetime).min(authority.not_after);
                // A replica without a certificate presents the new one at once. This is an
                // exception of the guarantee. The other replicas wait.
                let settled = authority
                    .published
                    .map_or(self.now, |since| since + self.profile.settle);
                let from = if held.is_alone(now) {
                    self.now
                } else {
                    settled.max(self.now)
                };
                self.leaves.push((from, issuer.clone(), not_after));
                held.leaf = Some(Leaf {
                    issuer: issuer.clone(),
                    not_after,
                    issued: now,
                    names_fit: true,
                });
            }
            Step::Retire { id } => {
                held.authorities.retain(|authority| authority.id != *id);
                held.retired.insert(id.clone());
            }
            Step::Publish | Step::Nothing => panic!("the step does not change the Secret"),
        }
        held
    }

    /// All versions that an observer with a delay may use: the last one before `from`, and all
    /// later ones.
    fn current<T: Clone>(history: impl Iterator<Item = (i64, T)>, from: i64) -> Vec<T> {
        let all: Vec<_> = history.collect();
        let first = all.iter().rposition(|(since, _)| *since <= from).unwrap_or(0);
        all.into_iter().skip(first).map(|(_, value)| value).collect()
    }

    /// Checks that every API server accepts the certificate of every replica, whatever their delay.
    fn check(&self, skew: i64) -> Result<(), TestCaseError> {
        let leaves = self.leaves.iter().filter(|(since, ..)| *since <= self.now);
        let leaves = leaves.map(|(since, issuer, _)| (*since, issuer.clone()));
        let leaves = Self::current(leaves, self.now - self.profile.retire + 2 * skew + 1);
        for index in 0..self.bundles.len() {
            let trusts = self.trusts.iter().filter(|(of, _, _)| *of == index);
            let trusts = trusts.map(|(_, since, trusted)| (*since, trusted.clone()));
            for trusted in Self::current(trusts, self.now - self.profile.settle + 2 * skew + 1) {
                for issuer in &leaves {
                    prop_assert!(
                        trusted.contains(issuer),
                        "{issuer} is presented, but bundle {index} trusts {trusted:?}"
                    );
                }
            }
        }
        Ok(())
    }

    /// Executes steps until there is nothing to do.
    fn settle(&mut self) {
        for _ in 0..100 {
            let mut replica = Replica {
                bundles: self.bundles.clone(),
                secret: Some((self.secret.clone(), self.secret_version)),
                serves_until: self.leaves.last().map(|(.., end)| *end),
            };
            if self.apply(&mut replica, 0) == Some(Step::Nothing) {
                return;
            }
        }
        panic!("the rotation does not settle: {:?} {:?}", self.secret, self.bundles);
    }
}

#[derive(Clone, Debug)]
enum Event {
    ReadBundles(usize),
    ReadSecret(usize),
    Apply(usize),
    Work,
    Seconds(i64),
    Days(i64),
    LoseSecret,
    Restart(usize),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (0..2usize).prop_map(Event::ReadBundles),
        4 => (0..2usize).prop_map(Event::ReadSecret),
        6 => (0..2usize).prop_map(Event::Apply),
        4 => Just(Event::Work),
        4 => (1..700i64).prop_map(Event::Seconds),
        3 => (1..60i64).prop_map(Event::Days),
        1 => Just(Event::LoseSecret),
        1 => (0..2usize).prop_map(Event::Restart),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]
    #[test]
    fn every_api_server_trusts_the_presented_certificate_whatever_its_delay(events in proptest::collection::vec(event(), 1..250)) {
        const SKEW: i64 = 20;
        let mut cluster = Cluster::new(2);
        let mut replicas = [Replica::default(), Replica::default()];
        for event in events {
            match event {
                Event::ReadBundles(of) => {
                    let serves_until = replicas[of].serves_until;
                    replicas[of] = Replica { bundles: cluster.bundles.clone(), secret: None, serves_until };
                }
                Event::Restart(of) => replicas[of] = Replica::default(),
                Event::ReadSecret(of) if replicas[of].bundles.is_empty() => {}
                Event::ReadSecret(of) => {
                    replicas[of].secret = Some((cluster.secret.clone(), cluster.secret_version));
                    replicas[of].serve(cluster.secret.as_ref());
                }
                Event::Apply(of) => {
                    cluster.apply(&mut replicas[of], if of == 0 { SKEW } else { -SKEW });
                }
                Event::Work => cluster.settle(),
                Event::Seconds(seconds) => cluster.now += seconds,
                Event::Days(days) => {
                    cluster.settle();
                    cluster.now += days * DAY;
                    cluster.settle();
                }
                // With more CAs than a Secret adopts, the guarantee has an exception.
                Event::LoseSecret if cluster.authorities > MOST_ADOPTED as u64 => {}
                Event::LoseSecret => {
                    cluster.secret = None;
                    cluster.secret_version += 1;
                }
            }
            cluster.check(SKEW)?;
        }
    }
}

#[test]
fn over_ten_years_the_leaf_stays_valid_and_old_authorities_are_removed() {
    let mut cluster = Cluster::new(2);
    for _ in 0..10 * 365 * 2 {
        cluster.settle();
        let held = cluster.secret.clone().unwrap();
        assert!(held.leaf.unwrap().not_after > cluster.now + 20 * DAY);
        assert!(held.authorities.len() <= 3, "{:?}", held.authorities);
        cluster.check(0).unwrap();
        cluster.now += DAY / 2;
    }
    assert!(cluster.authorities >= 9, "there is a new CA every year");
}

#[test]
fn v182_a_program_that_writes_one_ca_after_the_other_does_not_fill_the_secret() {
    let mut cluster = Cluster::new(2);
    cluster.settle();
    for number in 0..40 {
        cluster.set_bundle(0, BTreeSet::from([format!("theirs-{number}")]));
        cluster.settle();
        cluster.now += 1;
    }
    let held = cluster.secret.unwrap();
    let adopted = held.authorities.iter().filter(|authority| !authority.signs).count();
    assert_eq!(adopted, MOST_ADOPTED);
    assert_eq!(cluster.bundles[0].1.trusted, held.target());
}

#[test]
fn the_first_installation_does_not_wait() {
    for bundles in 0..3 {
        let mut cluster = Cluster::new(bundles);
        cluster.settle();
        assert!(cluster.secret.unwrap().leaf.is_some());
    }
}

/// The steps of a replica until a certificate is in the Secret, at one moment.
fn steps_to_a_leaf(cluster: &mut Cluster, mut replica: Replica) -> Option<usize> {
    (0..20).find(|_| {
        replica.bundles = cluster.bundles.clone();
        replica.secret = Some((cluster.secret.clone(), cluster.secret_version));
        cluster.apply(&mut replica, 0);
        cluster.secret.as_ref().is_some_and(|held| held.leaf.is_some())
    })
}

#[test]
fn w5_a_replica_that_starts_after_the_loss_of_the_secret_does_not_wait() {
    for is_emptied in [false, true] {
        let mut cluster = Cluster::new(2);
        cluster.settle();
        cluster.now += DAY;
        cluster.secret = None;
        if is_emptied {
            cluster.set_bundle(1, BTreeSet::new());
        }
        let serving = Replica {
            serves_until: Some(cluster.now + DAY),
            ..Replica::default()
        };
        assert_eq!(
            steps_to_a_leaf(&mut cluster, serving),
            None,
            "API servers trust what it serves"
        );
        if is_emptied {
            cluster.set_bundle(0, BTreeSet::new());
        }
        assert!(steps_to_a_leaf(&mut cluster, Replica::default()).is_some());
        let held = cluster.secret.clone().unwrap();
        assert!(held.may_be_served(cluster.now, &cluster.profile, false));
        assert!(!held.may_be_served(cluster.now, &cluster.profile, true));
        let later = cluster.now + cluster.profile.settle;
        assert!(held.may_be_served(later, &cluster.profile, true));
    }
}

#[test]
fn a_cluster_that_was_off_for_years_gets_new_certificates_without_waiting() {
    let mut cluster = Cluster::new(1);
    cluster.settle();
    cluster.now += 3000 * DAY;
    cluster.settle();
    let held = cluster.secret.clone().unwrap();
    assert_eq!(held.leaf.unwrap().issuer, "ca-2");
    assert_eq!(held.authorities.len(), 1);
    assert_eq!(cluster.bundles[0].1.trusted, BTreeSet::from(["ca-2".to_owned()]));
}

#[test]
fn an_emptied_bundle_is_filled_and_the_settle_time_of_the_next_authority_restarts() {
    let mut cluster = Cluster::new(2);
    cluster.settle();
    cluster.now += 366 * DAY;
    cluster.settle();
    assert_eq!(cluster.secret.as_ref().unwrap().authorities.len(), 2);
    cluster.now += cluster.profile.settle - 1;
    cluster.bundles[1] = (
        99,
        Bundle {
            trusted: BTreeSet::new(),
            has_other_content: true,
        },
    );
    cluster.settle();
    assert_eq!(cluster.bundles[1].1.trusted.len(), 2);
    cluster.now += 1;
    cluster.settle();
    let issuer = |cluster: &Cluster| cluster.secret.clone().unwrap().leaf.unwrap().issuer;
    assert_eq!(issuer(&cluster), "ca-1");
    cluster.now += cluster.profile.settle;
    cluster.settle();
    assert_eq!(issuer(&cluster), "ca-2");
}

#[test]
fn a_leaf_that_ends_with_its_authority_is_issued_only_once() {
    let mut cluster = Cluster::new(1);
    cluster.settle();
    // The cluster is off until ten days before the end. The next CA must settle first.
    cluster.now += 720 * DAY;
    cluster.settle();
    let held = cluster.secret.clone().unwrap();
    let (leaf, issuer) = (held.leaf.unwrap(), &held.authorities[0]);
    assert_eq!(
        (leaf.issuer.as_str(), leaf.not_after),
        (issuer.id.as_str(), issuer.not_after)
    );
}

#[test]
fn a_leaf_without_a_configured_name_is_replaced_and_keeps_its_former_names() {
    let mut cluster = Cluster::new(1);
    cluster.settle();
    let mut held = cluster.secret.clone().unwrap();
    held.leaf.as_mut().unwrap().names_fit = false;
    cluster.now += cluster.profile.settle;
    let step = next(
        cluster.now,
        &cluster.profile,
        &held,
        &[cluster.bundles[0].1.clone()],
        true,
    );
    assert_eq!(
        step,
        Step::IssueLeaf {
            issuer: "ca-1".to_owned(),
            keep_names: true
        }
    );
}

/// An update that adds a feature: the new replica knows a bundle, with the CA of another program,
/// that the old replica does not know.
#[test]
fn w8_replicas_that_know_different_bundles_come_to_rest() {
    let mut cluster = Cluster::new(1);
    cluster.settle();
    let foreign = Bundle {
        trusted: BTreeSet::from(["foreign".to_owned()]),
        has_other_content: false,
    };
    cluster.bundles.extend([(0, foreign), (0, Bundle::default())]);
    let all = cluster.bundles.len();
    let mut steps = Vec::new();
    for round in 0..60 {
        let known = if round % 2 == 0 { 1 } else { all };
        let mut replica = Replica {
            bundles: cluster.bundles[..known].to_vec(),
            secret: Some((cluster.secret.clone(), cluster.secret_version)),
            serves_until: Some(cluster.now + DAY),
        };
        // A replica writes the bundles that it knows only.
        steps.extend(cluster.apply(&mut replica, 0));
        cluster.now += 1;
    }
    assert_eq!(steps[40..], vec![Step::Nothing; 20], "{steps:?}");
    let target = cluster.secret.clone().unwrap().target();
    assert!(cluster.bundles.iter().all(|(_, bundle)| bundle.trusted == target));
}
