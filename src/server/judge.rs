//! The reviewer that runs in a cluster: the rules of core, over the picture of the cluster that the caches keep.

use std::sync::Arc;

use capstan_core::admission::{Admission, Answer, NoReview, Snapshot, routes};

use super::answer::Reviewer;

/// Where the judge looks things up: memory, never a call.
pub trait Surroundings: Send + Sync + 'static {
    /// The cluster as it was last seen.
    fn snapshot(&self) -> Arc<Snapshot>;

    /// Whether everything has been read once.
    ///
    /// # Errors
    ///
    /// What is missing, for the person who reads `/readyz`.
    fn ready(&self) -> Result<(), String>;
}

/// Judges by the rules of core.
pub struct Judge {
    admission: Admission,
    surroundings: Arc<dyn Surroundings>,
}

impl Judge {
    /// Judges by these rules, with these surroundings.
    pub fn new(admission: Admission, surroundings: Arc<dyn Surroundings>) -> Self {
        Self {
            admission,
            surroundings,
        }
    }
}

impl Reviewer for Judge {
    fn routes(&self) -> Vec<String> {
        routes().iter().map(|route| route.path.to_owned()).collect()
    }

    fn review(&self, route: &str, body: &[u8]) -> Result<Answer, NoReview> {
        let known = routes().iter().find(|known| known.path == route);
        let route = known.ok_or_else(|| NoReview(format!("nothing is judged at {route}")))?;
        self.admission.answer(route, body, &self.surroundings.snapshot())
    }

    fn ready(&self) -> Result<(), String> {
        self.surroundings.ready()
    }
}

#[cfg(test)]
mod tests {
    use capstan_core::admission::Options;

    use super::*;

    struct Nothing;

    impl Surroundings for Nothing {
        fn snapshot(&self) -> Arc<Snapshot> {
            Arc::default()
        }

        fn ready(&self) -> Result<(), String> {
            Err("not read yet: machines".to_owned())
        }
    }

    fn judge() -> Judge {
        Judge::new(Admission::new(Options::default()).unwrap(), Arc::new(Nothing))
    }

    #[test]
    fn every_route_of_core_is_served_and_answers_with_a_record() {
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
    fn what_is_no_review_has_nobody_to_answer_to() {
        let route = routes().first().unwrap().path;
        assert!(judge().review(route, b"{}").is_err());
        assert!(judge().review("/elsewhere", b"{}").is_err());
    }

    #[test]
    fn readiness_is_that_of_the_caches() {
        assert_eq!(judge().ready(), Err("not read yet: machines".to_owned()));
    }
}
