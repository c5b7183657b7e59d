//! The condition `MirroringDegraded` of the ClusterOperator `machine-api`: whether the
//! synchronization fails for many objects at once. A cluster without this ClusterOperator gets
//! none.
//!
//! Never creates the ClusterOperator, which belongs to OpenShift, and never changes another
//! condition of it.

use capstan_core::api::kind::KindInfo;
use capstan_core::api::kinds;
use capstan_core::authority::other;
use capstan_core::authority::pair::FullObject;
use capstan_core::authority::wide::{OPERATOR, Tally, patch};
use capstan_core::model::ObjectRef;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::objects::{self, StoredObject};
use super::pairs::Pairs;
use crate::runtime::{
    Cluster, Moment, Observation, Reconcile, Reconciled, Report, Source, Step, StepError, Verb, View, Watch, Write,
};

/// The objects are counted at most this often.
const PERIOD: SignedDuration = SignedDuration::from_secs(10);

/// The kinds whose objects are counted.
const COUNTED: [&KindInfo; 3] = [&kinds::MACHINES, &kinds::MACHINE_SETS, &kinds::MACHINE_HEALTH_CHECKS];

/// The controller of the condition.
#[derive(Debug)]
pub(super) struct Operator {
    pairs: Pairs,
}

impl Operator {
    /// The controller for the objects in the namespaces of the pairs.
    pub(super) fn new(pairs: Pairs) -> Self {
        Self { pairs }
    }

    fn operator(view: &View) -> Option<FullObject> {
        let stored = view
            .objects
            .get::<StoredObject>(&kinds::CLUSTER_OPERATORS, "", OPERATOR)?;
        Some(FullObject::from(stored.value().clone()))
    }

    fn tally(view: &View, now: Timestamp) -> Tally {
        let mut tally = Tally::default();
        for kind in COUNTED {
            for object in view.objects.all::<StoredObject>(kind).into_iter().flatten() {
                tally.add(&kind.kind, &FullObject::from(object.value().clone()), now);
            }
        }
        tally
    }
}

impl Reconcile for Operator {
    const NAME: &'static str = "mirroring-operator";

    /// When the objects were counted last.
    type State = Option<Timestamp>;
    /// The patch of the status, if the condition is not right, and when time alone changes it.
    type Observed = (Option<Value>, Option<Timestamp>);

    fn kind(&self) -> &KindInfo {
        &kinds::CLUSTER_OPERATORS
    }

    fn watches(&self) -> Vec<Watch> {
        objects::watches(&self.pairs.machine_api, &self.pairs.cluster_api)
    }

    fn affected(&self, changed: &ObjectRef, view: &View) -> Vec<ObjectRef> {
        let is_counted = COUNTED.iter().any(|kind| kind.is_kind_of(changed));
        match is_counted || self.kind().is_kind_of(changed) {
            true => view.objects.keys(self.kind()),
            false => Vec::new(),
        }
    }

    fn observe(
        &self,
        _object: &ObjectRef,
        view: &View,
        _source: Source,
        state: &mut Option<Timestamp>,
        moment: Moment,
    ) -> Observation<Self::Observed> {
        let (true, Ok(lease), Some(operator)) = (view.synced, self.pairs.lease(view), Self::operator(view)) else {
            return Observation::Nothing;
        };
        if self.pairs.switched_off(view).is_some() || other::running(lease, &[], moment.time).is_some() {
            return Observation::Nothing;
        }
        let next = state.and_then(|last| last.checked_add(PERIOD).ok());
        if let Some(next) = next.filter(|next| moment.time < *next) {
            return Observation::Idle(Some(next));
        }
        *state = Some(moment.time);
        let tally = Self::tally(view, moment.time);
        Observation::Found((patch(&operator, &tally, moment.time), tally.next()))
    }

    async fn read_live<C: Cluster>(
        &self,
        _object: &ObjectRef,
        _cluster: &C,
        _view: &View,
        _observed: &Self::Observed,
    ) -> Result<Option<View>, StepError> {
        Ok(None)
    }

    fn plan(&self, _observed: &Self::Observed, _state: &mut Option<Timestamp>, _moment: Moment) -> Vec<Step> {
        Vec::new()
    }

    fn status(&self, reconciled: &Reconciled<'_, Self::Observed>, _state: &mut Option<Timestamp>) -> Vec<Write> {
        let patch = reconciled.observed.0.clone();
        let write = |patch| Write::new(&kinds::CLUSTER_OPERATORS, "", OPERATOR, Verb::PatchStatus(patch));
        patch.map(write).into_iter().collect()
    }

    fn report<'a>(&self, reconciled: &Reconciled<'a, Self::Observed>, _state: &mut Option<Timestamp>) -> Report<'a> {
        Report {
            requeue_at: reconciled.observed.1,
            ..Report::default()
        }
    }
}
