//! A controller for a toy kind: each Toy gets one Part of the same name, and reports it.

use std::sync::Arc;

use capstan::runtime::{
    Cluster, Moment, Observation, Reconcile, Reconciled, Source, Step, StepError, View, Watch, Write, Written,
};
use capstan_core::api::kind::KindInfo;
use capstan_core::api::meta::ObjectMeta;
use capstan_core::api::objects::CachedObject;
use capstan_core::model::ObjectRef;
use serde_json::{Value, json};

pub(crate) static TOYS: KindInfo = KindInfo::namespaced("example.org", "v1", "Toy", "toys");
pub(crate) static PARTS: KindInfo = KindInfo::namespaced("example.org", "v1", "Part", "parts");

/// A Toy, or a Part.
#[derive(Clone, Debug, PartialEq, serde::Deserialize)]
pub(crate) struct Thing {
    pub(crate) metadata: ObjectMeta,
    #[serde(default)]
    pub(crate) status: Value,
}

impl CachedObject for Thing {
    fn metadata(&self) -> Option<&ObjectMeta> {
        Some(&self.metadata)
    }
}

// The controller begins here. A test counts its lines.
pub(crate) struct Toys;

impl Reconcile for Toys {
    const NAME: &'static str = "toy";
    /// The version of the toy in the caches when its status was last written, and that status.
    type State = Option<(Option<String>, Value)>;
    type Observed = (ObjectRef, Arc<Thing>, bool);

    fn kind(&self) -> &KindInfo {
        &TOYS
    }
    fn watches(&self) -> Vec<Watch> {
        vec![Watch::of::<Thing>(&TOYS), Watch::of::<Thing>(&PARTS)]
    }
    fn affected(&self, changed: &ObjectRef, _: &View) -> Vec<ObjectRef> {
        vec![TOYS.object(&changed.namespace, &changed.name)]
    }
    fn observe(
        &self,
        of: &ObjectRef,
        view: &View,
        _: Source,
        _: &mut Self::State,
        _: Moment,
    ) -> Observation<Self::Observed> {
        let part = view.objects.get::<Thing>(&PARTS, &of.namespace, &of.name);
        match view.objects.get::<Thing>(&TOYS, &of.namespace, &of.name) {
            Some(toy) if view.synced => Observation::Found((of.clone(), Arc::clone(toy), part.is_some())),
            _ => Observation::Nothing,
        }
    }
    async fn read_live<C: Cluster>(
        &self,
        of: &ObjectRef,
        cluster: &C,
        view: &View,
        _: &Self::Observed,
    ) -> Result<Option<View>, StepError> {
        let view = view.refreshed::<Thing>(cluster, &TOYS, &of.key()).await?;
        view.refreshed::<Thing>(cluster, &PARTS, &of.key()).await.map(Some)
    }
    fn plan(&self, (of, toy, part): &Self::Observed, _: &mut Self::State, _: Moment) -> Vec<Step> {
        let owner = json!({"apiVersion": "example.org/v1", "kind": "Toy", "name": of.name, "controller": true,
            "uid": toy.metadata.uid()});
        let metadata = json!({"name": of.name, "namespace": of.namespace, "ownerReferences": [owner]});
        let body = json!({"apiVersion": "example.org/v1", "kind": "Part", "metadata": metadata});
        let create = || Write::create(&PARTS, &of.namespace, &of.name, body);
        Vec::from_iter((!part).then(|| Step::disruptive(create(), "create", "the toy has no part")))
    }
    fn status(&self, reconciled: &Reconciled<'_, Self::Observed>, last: &mut Self::State) -> Vec<Write> {
        let (of, toy, part) = reconciled.observed;
        let status = json!({ "ready": part });
        let write = Write::status(&TOYS, &of.namespace, &of.name, &status);
        let is_written = *last == Some((toy.metadata.resource_version.clone(), status.clone()));
        Vec::from_iter((toy.status != status && !is_written).then_some(write))
    }
    fn stored(&self, (_, toy, part): &Self::Observed, _: &Write, _: &Written, last: &mut Self::State) {
        *last = Some((toy.metadata.resource_version.clone(), json!({ "ready": part })));
    }
}
