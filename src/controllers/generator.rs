//! The generator: an Inactive set for a cluster that has none, kept up to date in place until somebody activates it.
//!
//! It applies on the server's side, under a name of its own and without force: a field that a user has touched is the
//! user's. It writes only when what it would generate has changed, which an annotation of the set tells. A set without
//! that annotation is somebody else's and never touched; neither is one that is Active or on its way out. That there is
//! none is asked of the API server and not of a cache: an apply cannot say that it must be the first. What a rule refuses
//! is told in an event and not asked for again until something changes.

mod refused;

use std::sync::Arc;
use std::time::Duration;

use capstan_core::api::machine_openshift_io::control_plane_machine_set::{ControlPlaneMachineSet, NAME};
use capstan_core::cpms::generate::{Existing, generate, update};
use capstan_core::model::canonical_json;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::caches::View;
use super::cluster::{Cluster, Object};
use super::control_plane_machine_set::ReconcileResult;
use super::events::{Events, News};
use super::follow::Pauses;
use super::step_error::StepError;
use super::write_tracker::{CachedVersion, WriteTracker};
use refused::{Refused, basis};

/// What was generated last, as a hash: an annotation of every set that the generator made.
pub const GENERATED: &str = "capstan.dev/generated";

/// The reason of the event that tells why a set is not generated, or not brought up to date.
pub const REFUSED: &str = "GenerationRefused";

/// The generator.
pub struct Generator<C> {
    cluster: C,
    writes: WriteTracker,
    /// Why nothing could be generated, as it was last said.
    unsupported: String,
    /// What a rule refused.
    refused: Refused,
    events: Events,
}

impl<C: Cluster> Generator<C> {
    /// A generator for a cluster, which has written nothing yet. In events it is called `identity`.
    pub fn new(cluster: C, identity: String) -> Self {
        Self {
            cluster,
            writes: WriteTracker::default(),
            unsupported: String::new(),
            refused: Refused::default(),
            events: Events::new(identity),
        }
    }

    /// Works until `stop`, while `leading` says so.
    pub(super) async fn run(
        mut self,
        mut views: watch::Receiver<Arc<View>>,
        mut leading: watch::Receiver<bool>,
        stop: CancellationToken,
    ) {
        let mut pauses = Pauses::new();
        let mut due: Option<Instant> = Some(Instant::now());
        loop {
            let timer = async {
                match due {
                    Some(due) => tokio::time::sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                changed = leading.changed() => if changed.is_err() { return },
                changed = views.changed() => if changed.is_err() { return },
                () = timer => {}
            }
            let leads = *leading.borrow_and_update();
            let view = Arc::clone(&views.borrow_and_update());
            due = None;
            if !leads {
                continue;
            }
            let turn = self.turn(&view).await;
            if turn.failed {
                due = Some(Instant::now() + pauses.next().unwrap_or(Duration::from_secs(30)));
            } else if turn.looked {
                pauses.reset();
            }
            due = [due, turn.behind].into_iter().flatten().min();
        }
    }

    /// One turn with what the caches show: nothing while they do not show what was written, and one look otherwise. The
    /// simulation takes turns with this function.
    pub async fn turn(&mut self, view: &View) -> ReconcileResult {
        if !view.known {
            return ReconcileResult::default();
        }
        self.writes.settle(self.cluster.instant(), |_| {
            let meta = &there(view)?.metadata;
            Some(CachedVersion {
                uid: meta.uid(),
                version: meta.resource_version.as_deref().unwrap_or_default(),
            })
        });
        let behind = self.writes.waits_until();
        if behind.is_some() {
            return ReconcileResult {
                behind,
                ..ReconcileResult::default()
            };
        }
        let looked = self.look(view).await;
        if let Err(failure) = &looked
            && !failure.is_conflict()
        {
            tracing::warn!(%failure, "generating a set");
        }
        ReconcileResult {
            looked: true,
            failed: looked.is_err(),
            behind: self.writes.waits_until(),
            ..ReconcileResult::default()
        }
    }

    async fn look(&mut self, view: &View) -> Result<(), StepError> {
        let there = there(view);
        let ours = there.is_none_or(|set| {
            let active = set.spec.state.as_deref() == Some("Active");
            !active && !set.metadata.is_deleting() && set.metadata.annotations.contains_key(GENERATED)
        });
        // What cannot be read may be what makes the difference.
        let readable = view.unreadable_machines.is_empty() && view.unreadable_sets.is_empty();
        if !ours || !readable {
            return Ok(());
        }
        let existing = Existing {
            machines: view.snapshot.machines.as_deref().unwrap_or_default(),
            machine_sets: view.machine_sets.as_deref().unwrap_or_default(),
            nodes: view.snapshot.nodes.as_ref(),
            infrastructure: view.snapshot.infrastructure.as_deref(),
        };
        let wanted = match there {
            Some(there) => update(&existing, there),
            None => generate(&existing).map(Some),
        };
        let wanted = match wanted {
            Ok(Some(wanted)) => wanted,
            Ok(None) => return Ok(()),
            Err(reason) => {
                let reason = reason.to_string();
                if reason != self.unsupported {
                    tracing::info!(reason, "no set is generated");
                    self.unsupported = reason;
                }
                return Ok(());
            }
        };
        self.unsupported.clear();
        let hash = hash(&wanted);
        let known = there.and_then(|set| set.metadata.annotations.get(GENERATED));
        if known == Some(&hash) {
            return Ok(());
        }
        let (basis, now) = (basis(view, &hash), self.cluster.instant());
        if self.refused.stands(&basis, now) {
            return Ok(());
        }
        let failure = match self.apply(there, &wanted, &hash).await {
            Err(failure) if failure.is_by_rule() => failure,
            other => {
                self.refused.forget();
                return other;
            }
        };
        if !self.refused.again(basis, now) {
            return Err(failure);
        }
        let message =
            format!("{failure}; it is asked for again when the machines, the set or the Infrastructure change");
        tracing::warn!(message, "the generated set is refused");
        let news = News {
            warning: true,
            reason: REFUSED,
            key: format!("{hash} {failure}"),
            message: message.into(),
        };
        self.events
            .say(&self.cluster, there.unwrap_or(&wanted), vec![news], &[]);
        Ok(())
    }

    async fn apply(
        &mut self,
        there: Option<&ControlPlaneMachineSet>,
        wanted: &ControlPlaneMachineSet,
        hash: &str,
    ) -> Result<(), StepError> {
        let failure = |error| StepError::new(format!("applying the generated ControlPlaneMachineSet {NAME}"), error);
        let mut wanted = wanted.clone();
        let meta = &mut wanted.metadata;
        meta.annotations.insert(GENERATED.to_owned(), hash.to_owned());
        if let Some(there) = there {
            // Not if it was activated in the meantime.
            meta.uid.clone_from(&there.metadata.uid);
            meta.resource_version.clone_from(&there.metadata.resource_version);
        } else if self.cluster.set().await.map_err(failure)?.is_some() {
            // Somebody made one that the caches do not show yet. To apply would be to write into it.
            return Ok(());
        }
        let mut object = serde_json::to_value(wanted).map_err(|error| failure(kube::Error::SerdeError(error)))?;
        let applied = match self.cluster.apply(object.clone()).await {
            Err(kube::Error::Api(status)) if status.code == 409 => {
                let theirs = conflicts(&status);
                if theirs.is_empty() || theirs.iter().any(|path| path == ".spec.state") {
                    return Err(failure(kube::Error::Api(status)));
                }
                tracing::info!(fields = theirs.join(", "), "left to whoever set them");
                for path in &theirs {
                    remove(&mut object, path);
                }
                self.cluster.apply(object).await
            }
            other => other,
        };
        let applied = applied.map_err(failure)?;
        tracing::info!(hash, "applied the generated ControlPlaneMachineSet");
        let (what, now) = (Object::Set(NAME.to_owned()), self.cluster.instant());
        self.writes.created(what, &applied.uid, &applied.version, now);
        Ok(())
    }
}

fn there(view: &View) -> Option<&ControlPlaneMachineSet> {
    let sets = view.snapshot.control_plane_machine_sets.as_deref().unwrap_or_default();
    let named = sets.iter().find(|set| set.metadata.name() == NAME);
    named.map(|set| &**set)
}

fn hash(set: &ControlPlaneMachineSet) -> String {
    let text = canonical_json(&json!(set.spec));
    let digest = Sha256::digest(text.as_bytes());
    digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// The fields that others own and that hold something else, as the API server names them.
fn conflicts(status: &kube::core::Status) -> Vec<String> {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    causes
        .filter(|cause| cause.reason == "FieldManagerConflict")
        .map(|cause| cause.field.clone())
        .collect()
}

/// Removes a field by a path such as `.spec.strategy.type`. What stands in a list goes with the whole list: a list that
/// is half ours would be nobody's.
fn remove(object: &mut Value, path: &str) {
    let path = path.split('[').next().unwrap_or_default();
    let mut parts: Vec<&str> = path.split('.').filter(|part| !part.is_empty()).collect();
    let Some(last) = parts.pop() else { return };
    let parent = parts.into_iter().try_fold(object, |value, part| value.get_mut(part));
    if let Some(parent) = parent.and_then(Value::as_object_mut) {
        parent.remove(last);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use capstan_core::admission::Snapshot;
    use capstan_core::api::config_openshift_io::cluster_operator::ClusterOperator;
    use capstan_core::api::core_v1::node::Node;
    use capstan_core::api::machine_openshift_io::machine::Machine;
    use k8s_openapi::api::core::v1::Event;
    use kube::api::DeleteParams;

    use super::*;
    use crate::controllers::cluster::Written;
    use crate::controllers::object::WatchedObject;

    /// A cluster in which every set is refused.
    #[derive(Clone, Default)]
    struct Refusing(Arc<Mutex<(usize, Vec<Event>)>>);

    fn not_asked<T>() -> kube::Result<T> {
        Err(kube::Error::Service("nobody asks for this".into()))
    }

    impl Cluster for Refusing {
        fn now(&self) -> jiff::Timestamp {
            jiff::Timestamp::UNIX_EPOCH
        }

        fn instant(&self) -> Instant {
            Instant::now()
        }

        async fn set(&self) -> kube::Result<Option<WatchedObject<ControlPlaneMachineSet>>> {
            Ok(None)
        }

        async fn machines(&self) -> kube::Result<Vec<WatchedObject<Machine>>> {
            not_asked()
        }

        async fn control_plane_nodes(&self) -> kube::Result<Vec<WatchedObject<Node>>> {
            not_asked()
        }

        async fn node(&self, _: &str) -> kube::Result<Option<WatchedObject<Node>>> {
            not_asked()
        }

        async fn etcd(&self) -> kube::Result<Option<WatchedObject<ClusterOperator>>> {
            not_asked()
        }

        async fn machine(&self, _: &str) -> kube::Result<WatchedObject<Machine>> {
            not_asked()
        }

        async fn create(&self, _: &Object, _: Value) -> kube::Result<Written> {
            not_asked()
        }

        async fn patch(&self, _: &Object, _: bool, _: Value) -> kube::Result<Written> {
            not_asked()
        }

        async fn apply(&self, _: Value) -> kube::Result<Written> {
            self.0.lock().unwrap().0 += 1;
            let status = json!({"status": "Failure", "code": 422, "reason": "Invalid", "message": "a rule says no"});
            Err(kube::Error::Api(serde_json::from_value(status).unwrap()))
        }

        async fn delete(&self, _: &str, _: &DeleteParams) -> kube::Result<Option<Written>> {
            not_asked()
        }

        fn tell(&self, _: &str, events: Vec<Event>) {
            self.0.lock().unwrap().1.extend(events);
        }
    }

    fn view(version: &str) -> View {
        let machine = |index: usize| -> Arc<Machine> {
            let machine = json!({
                "metadata": {"name": format!("c-master-{index}"), "uid": index.to_string(), "resourceVersion": version,
                    "labels": {"machine.openshift.io/cluster-api-cluster": "c",
                        "machine.openshift.io/cluster-api-machine-role": "master",
                        "machine.openshift.io/cluster-api-machine-type": "master"}},
                "spec": {"providerSpec": {"value": {"kind": "GCPMachineProviderSpec", "zone": format!("z{index}")}}},
            });
            Arc::new(serde_json::from_value(machine).unwrap())
        };
        let snapshot = Snapshot {
            machines: Some((0..3).map(machine).collect()),
            control_plane_machine_sets: Some(Vec::new()),
            ..Snapshot::default()
        };
        View {
            snapshot: Arc::new(snapshot),
            known: true,
            ..View::default()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_rule_refuses_is_told_once_and_asked_for_again_when_something_changed() {
        let cluster = Refusing::default();
        let mut generator = Generator::new(cluster.clone(), "test".to_owned());
        let asked = || cluster.0.lock().unwrap().0;
        let before = view("1");
        let mut turns = 0;
        while generator.turn(&before).await.failed {
            turns += 1;
            assert!(turns < 100, "it is never believed");
        }
        let first = asked();
        assert!(first > 1, "the webhook may see less than we do for a moment");
        for _ in 0..20 {
            assert!(!generator.turn(&before).await.failed);
        }
        assert_eq!(asked(), first);
        {
            let world = cluster.0.lock().unwrap();
            let [event] = world.1.as_slice() else {
                panic!("{:?}", world.1)
            };
            assert_eq!(event.reason.as_deref(), Some(REFUSED));
            let message = event.message.as_deref().unwrap();
            assert!(message.contains("a rule says no"), "{message}");
        }
        assert!(generator.turn(&view("2")).await.failed);
        assert_eq!(asked(), first + 1);
    }

    #[test]
    fn a_field_that_is_left_to_others_goes_with_its_whole_list() {
        let mut object = json!({"spec": {"strategy": {"type": "a"}, "list": [{"x": 1}], "replicas": 3}});
        remove(&mut object, ".spec.strategy.type");
        remove(&mut object, ".spec.list[0].x");
        remove(&mut object, ".spec.absent.field");
        assert_eq!(object, json!({"spec": {"strategy": {}, "replicas": 3}}));
    }

    #[test]
    fn the_hash_depends_on_the_spec_alone() {
        let mut set = ControlPlaneMachineSet::default();
        let before = hash(&set);
        set.metadata.name = Some("cluster".to_owned());
        assert_eq!(hash(&set), before);
        set.spec.replicas = Some(5);
        assert_ne!(hash(&set), before);
    }
}
