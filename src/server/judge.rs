//! The reviewer for clusters: it applies the rules of core to the snapshot that the caches keep.

use std::sync::Arc;

use capstan_core::admission::{
    Admission, Answer, CONVERSION_PATH, Feature, InfrastructureVersions, LiveObjects, LiveReads, NoReview, Record,
    Route, Snapshot, answer_conversion, routes_of,
};
use futures::future::BoxFuture;

use super::answer::Reviewer;

/// Where [`Judge`] looks objects up.
pub trait SnapshotSource: Send + Sync + 'static {
    /// The objects of the cluster as last observed. It reads memory and never calls the API server.
    fn snapshot(&self) -> Arc<Snapshot>;

    /// Reads objects from the API server; `None` if there is no API server.
    fn read(&self, _reads: LiveReads) -> Option<BoxFuture<'static, LiveObjects>> {
        None
    }

    /// The version of a kind of infrastructure, by its group and kind; `None` if it is unknown.
    fn infrastructure_version(&self, _group: &str, _kind: &str) -> Option<String> {
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
    /// Whether the conversion webhook of KubeadmControlPlanes is served.
    converts: bool,
    /// The paths of the reviews of KubeadmControlPlanes.
    kubeadm_paths: Vec<&'static str>,
}

impl Judge {
    /// A reviewer with these rules and this source of snapshots. It serves the routes of these
    /// features only: for another feature, the source may lack the objects that its rules look up.
    pub fn new(admission: Admission, source: Arc<dyn SnapshotSource>, features: &[Feature]) -> Self {
        Self {
            admission,
            source,
            routes: features.iter().copied().flat_map(routes_of).collect(),
            converts: features.contains(&Feature::KubeadmControlPlane),
            kubeadm_paths: routes_of(Feature::KubeadmControlPlane)
                .iter()
                .map(|route| route.path)
                .collect(),
        }
    }

    /// The snapshot for a review. That of a KubeadmControlPlane has the versions of infrastructure.
    fn snapshot(&self, route: &str) -> Arc<Snapshot> {
        let mut snapshot = self.source.snapshot();
        if self.kubeadm_paths.contains(&route) {
            let source = Arc::clone(&self.source);
            let versions = move |group: &str, kind: &str| source.infrastructure_version(group, kind);
            Arc::make_mut(&mut snapshot).infrastructure_versions = Some(InfrastructureVersions::new(versions));
        }
        snapshot
    }

    fn answer(&self, route: &str, body: &[u8], snapshot: &Snapshot) -> Result<Answer, NoReview> {
        let known = self.routes.iter().find(|known| known.path == route);
        let route = known.ok_or_else(|| NoReview(format!("no webhook is served at {route}")))?;
        self.admission.answer(route, body, snapshot)
    }
}

impl Judge {
    /// Answers a ConversionReview.
    fn convert(&self, body: &[u8]) -> Result<Answer, NoReview> {
        let versions = |group: &str, kind: &str| self.source.infrastructure_version(group, kind);
        let answer = answer_conversion(body, &versions).map_err(NoReview)?;
        if let Some(reason) = &answer.failure {
            tracing::warn!(target: "capstan::review", reason, "objects were not converted");
        }
        let allowed = answer.failure.is_none();
        let record = Record {
            uid: answer.uid,
            kind: answer.kind,
            operation: String::from("CONVERT"),
            allowed,
            code: if allowed { 200 } else { 422 },
            ..Record::default()
        };
        Ok(Answer {
            body: answer.body,
            record,
            live_reads: LiveReads::default(),
        })
    }
}

impl Reviewer for Judge {
    fn routes(&self) -> Vec<String> {
        let conversion = self.converts.then(|| CONVERSION_PATH.to_owned());
        let reviews = self.routes.iter().map(|route| route.path.to_owned());
        reviews.chain(conversion).collect()
    }

    fn review(&self, route: &str, body: &[u8]) -> Result<Answer, NoReview> {
        if self.converts && route == CONVERSION_PATH {
            return self.convert(body);
        }
        self.answer(route, body, &self.snapshot(route))
    }

    fn review_with(&self, route: &str, body: &[u8], live: LiveObjects) -> Result<Answer, NoReview> {
        let mut snapshot = Arc::unwrap_or_clone(self.snapshot(route));
        snapshot.mirrors.live = live.pairs;
        snapshot.scaled = live.scaled;
        self.answer(route, body, &snapshot)
    }

    fn read(&self, reads: LiveReads) -> Option<BoxFuture<'static, LiveObjects>> {
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
        // The conversion webhook answers another kind of review.
        assert_eq!(judge.routes().len(), routes().len() + 1);
        let review = br#"{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "u-1",
            "kind": {"group": "machine.openshift.io", "version": "v1", "kind": "ControlPlaneMachineSet"},
            "resource": {"group": "machine.openshift.io", "version": "v1", "resource": "controlplanemachinesets"},
            "name": "other", "namespace": "openshift-machine-api", "operation": "CREATE",
            "userInfo": {"username": "alice"}, "object": {"metadata": {"name": "other"}}}}"#;
        for route in judge.routes().into_iter().filter(|route| route != CONVERSION_PATH) {
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
    fn objects_are_converted_with_the_feature_only() {
        let review = br#"{"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": {
            "uid": "u-2", "desiredAPIVersion": "controlplane.cluster.x-k8s.io/v1beta2", "objects": [{
            "apiVersion": "controlplane.cluster.x-k8s.io/v1beta1", "kind": "KubeadmControlPlane",
            "metadata": {"name": "a"}, "spec": {"version": "v1.34.0"}}]}}"#;
        let answer = judge().review(CONVERSION_PATH, review).unwrap();
        assert_eq!((answer.record.uid.as_str(), answer.record.allowed), ("u-2", true));
        assert!(judge_of(&[Feature::Admission]).review(CONVERSION_PATH, review).is_err());
        assert!(judge().review(CONVERSION_PATH, b"{}").is_err());
    }

    #[test]
    fn w10_a_control_plane_whose_infrastructure_has_no_known_version_is_allowed_with_a_warning() {
        let review = serde_json::json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
            "uid": "u-3", "operation": "CREATE", "name": "a", "namespace": "ns", "userInfo": {"username": "alice"},
            "kind": {"group": "controlplane.cluster.x-k8s.io", "version": "v1beta2", "kind": "KubeadmControlPlane"},
            "resource": {"group": "controlplane.cluster.x-k8s.io", "version": "v1beta2",
                "resource": "kubeadmcontrolplanes"},
            "object": {"apiVersion": "controlplane.cluster.x-k8s.io/v1beta2", "kind": "KubeadmControlPlane",
                "metadata": {"name": "a", "namespace": "ns"}, "spec": {"replicas": 3, "version": "v1.34.0",
                    "machineTemplate": {"spec": {"infrastructureRef": {
                        "apiGroup": "example.org", "kind": "FooMachineTemplate", "name": "t"}}}}}}});
        let path = "/validate-controlplane-cluster-x-k8s-io-v1beta2-kubeadmcontrolplane";
        let answer = judge().review(path, review.to_string().as_bytes()).unwrap();
        assert!(answer.record.allowed);
        let body: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
        let warning = body["response"]["warnings"][0].as_str().unwrap();
        assert!(
            warning.contains("no CRD names the version of FooMachineTemplate.example.org"),
            "{warning}"
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
