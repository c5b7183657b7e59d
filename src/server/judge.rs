//! The reviewer for clusters: it applies the rules of core to the snapshot that the caches keep.

use std::sync::Arc;

use capstan_core::admission::{Admission, Answer, Feature, LiveObject, LiveRead, NoReview, Route, Snapshot, routes_of};
use futures::future::BoxFuture;

use super::answer::Reviewer;

/// Where [`Judge`] looks objects up.
pub trait SnapshotSource: Send + Sync + 'static {
    /// The objects of the cluster as last observed. It reads memory and never calls the API server.
    fn snapshot(&self) -> Arc<Snapshot>;

    /// Reads objects from the API server; `None` if there is no API server.
    fn read(&self, _reads: Vec<LiveRead>) -> Option<BoxFuture<'static, Vec<LiveObject>>> {
        None
    }

    /// Whether each cache has been filled once.
    ///
    /// # Errors
    ///
    /// What is missing, as text for `/readyz`.
    fn ready(&self) -> Result<(), String>;
}

/// Gives verdicts by the rules of core.
pub struct Judge {
    admission: Admission,
    source: Arc<dyn SnapshotSource>,
    routes: Vec<Route>,
}

impl Judge {
    /// A reviewer with these rules and this source of snapshots. It serves the routes of these
    /// features only: for another feature, the source may lack the objects that its rules look up.
    pub fn new(admission: Admission, source: Arc<dyn SnapshotSource>, features: &[Feature]) -> Self {
        Self {
            admission,
            source,
            routes: features.iter().copied().flat_map(routes_of).collect(),
        }
    }

    fn answer(&self, route: &str, body: &[u8], snapshot: &Snapshot) -> Result<Answer, NoReview> {
        let known = self.routes.iter().find(|known| known.path == route);
        let route = known.ok_or_else(|| NoReview(format!("no webhook is served at {route}")))?;
        self.admission.answer(route, body, snapshot)
    }
}

impl Reviewer for Judge {
    fn routes(&self) -> Vec<String> {
        self.routes.iter().map(|route| route.path.to_owned()).collect()
    }

    fn review(&self, route: &str, body: &[u8]) -> Result<Answer, NoReview> {
        self.answer(route, body, &self.source.snapshot())
    }

    fn review_with(&self, route: &str, body: &[u8], live: Vec<LiveObject>) -> Result<Answer, NoReview> {
        let mut snapshot = Snapshot::clone(&self.source.snapshot());
        snapshot.mirrors.live = live;
        self.answer(route, body, &snapshot)
    }

    fn read(&self, reads: Vec<LiveRead>) -> Option<BoxFuture<'static, Vec<LiveObject>>> {
        self.source.read(reads)
    }

    fn ready(&self) -> Result<(), String> {
        self.source.ready()
    }
}

#[cfg(test)]
mod tests {
    use capstan_core::admission::{Options, routes};

    use super::*;

    struct NotSynced;

    impl SnapshotSource for NotSynced {
        fn snapshot(&self) -> Arc<Snapshot> {
            Arc::default()
        }

        fn ready(&self) -> Result<(), String> {
            Err("not synced: machines".to_owned())
        }
    }

    fn judge() -> Judge {
        judge_of(&Feature::ALL)
    }

    fn judge_of(features: &[Feature]) -> Judge {
        Judge::new(
            Admission::new(Options::default()).unwrap(),
            Arc::new(NotSynced),
            features,
        )
    }

    #[test]
    fn every_route_of_core_is_served_and_returns_a_record() {
        let judge = judge();
        assert_eq!(judge.routes().len(), routes().len());
        let review = br#"{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "u-1",
            "kind": {"group": "machine.openshift.io", "version": "v1", "kind": "ControlPlaneMachineSet"},
            "resource": {"group": "machine.openshift.io", "version": "v1", "resource": "controlplanemachinesets"},
            "name": "other", "namespace": "openshift-machine-api", "operation": "CREATE",
            "userInfo": {"username": "alice"}, "object": {"metadata": {"name": "other"}}}}"#;
        for route in judge.routes() {
            let answer = judge.review(&route, review).unwrap();
            assert_eq!(answer.record.uid, "u-1", "{route}");
            assert_eq!(answer.record.user, "alice");
        }
        let validating = "/validate-machine-openshift-io-v1-controlplanemachineset";
        let refused = judge.review(validating, review).unwrap().record;
        assert!(
            !refused.allowed && refused.denied_by.contains(&"cpms-name".to_owned()),
            "{refused:?}"
        );
    }

    #[test]
    fn a_body_that_is_not_a_review_is_an_error() {
        let route = routes().first().unwrap().path;
        assert!(judge().review(route, b"{}").is_err());
        assert!(judge().review("/elsewhere", b"{}").is_err());
    }

    #[test]
    fn only_the_routes_of_installed_features_are_served() {
        let served = judge_of(&[Feature::Admission]).routes();
        assert!(!served.is_empty());
        assert!(served.iter().all(|route| route.ends_with("-controlplanemachineset")));
        assert!(
            judge_of(&[Feature::Admission])
                .review("/validate-cluster-x-k8s-io-v1beta2", b"{}")
                .is_err()
        );
    }

    #[test]
    fn readiness_follows_the_caches() {
        assert_eq!(judge().ready(), Err("not synced: machines".to_owned()));
    }
}
