//! Every write that the controllers make: its preconditions, what an answer means, and what is remembered of it.

use capstan_core::api::config_openshift_io::cluster_operator;
use capstan_core::api::machine_openshift_io::control_plane_machine_set::{ControlPlaneMachineSet, NAME};
use capstan_core::api::machine_openshift_io::machine::Machine;
use capstan_core::cpms::indexes::REPLACES;
use capstan_core::cpms::observed::Observed;
use capstan_core::cpms::pending_creates;
use capstan_core::cpms::plan::{Action, Step};
use capstan_core::model::{PendingCreation, UnreadablePendingCreations};
use jiff::SignedDuration;
use kube::api::{DeleteParams, Preconditions, PropagationPolicy};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::cluster::{Cluster, Object, Written};
use super::step_error::StepError;
use super::write_tracker::{FRESH, WriteTracker};

/// Writes, and remembers what it wrote.
pub(super) struct Writer<C> {
    pub(super) cluster: C,
    pub(super) writes: WriteTracker,
}

impl<C: Cluster> Writer<C> {
    pub(super) fn new(cluster: C) -> Self {
        Self {
            cluster,
            writes: WriteTracker::default(),
        }
    }

    /// Adds to what was observed with a set, live or from the cache, the machines that were asked for and may still come.
    pub(super) fn recall(&mut self, observed: &mut Observed, set: &ControlPlaneMachineSet, live: bool) {
        let (now, time) = (self.cluster.instant(), self.cluster.now());
        let version = set.metadata.resource_version.as_deref().unwrap_or_default();
        self.writes.read(pending_creates::recorded(set), version, live, now);
        self.writes.recall(observed, now, time);
    }

    /// Records in the set, as it was read, that this process, `identity`, is about to create a machine. The API server
    /// refuses the record if the set changed since it was read.
    pub(super) async fn record(
        &mut self,
        identity: &str,
        set: &ControlPlaneMachineSet,
        step: &Step,
    ) -> Result<(), StepError> {
        let (now, time) = (self.cluster.instant(), self.cluster.now());
        let Some(new) = pending_creates::creation(step, identity, time) else {
            return Ok(());
        };
        let what = || format!("recording the creation of Machine {}", new.machine);
        // While the record cannot be read the plan is degraded and creates nothing: this is the last line.
        let unreadable = |error: UnreadablePendingCreations| StepError::new(what(), kube::Error::Service(error.into()));
        let recorded = pending_creates::recorded(set).map_err(unreadable)?;
        if self.writes.is_recorded(&new, &recorded, now) {
            return Ok(());
        }
        let superseded = |there: &PendingCreation| self.writes.is_superseded_by(there, &new);
        let patch = pending_creates::record(set, &new, superseded).map_err(unreadable)?;
        // Before the answer: if the record is stored, it is one of this process.
        self.writes.records(new.clone(), now);
        let object = Object::Set(NAME.to_owned());
        let written = self.cluster.patch(&object, false, patch).await;
        let written = written.map_err(|error| StepError::new(what(), error))?;
        self.changed(object, &written);
        Ok(())
    }

    /// Whether a machine may still be made or removed for what a live read said that began then.
    pub(super) fn fresh(&self, step: &Step, read: Instant) -> Result<(), StepError> {
        let passed = self.cluster.instant().duration_since(read);
        if SignedDuration::try_from(passed).is_ok_and(|passed| passed < FRESH) {
            return Ok(());
        }
        let (action, machine) = (step.verb(), step.machine().unwrap_or_default());
        let text = format!(
            "what it follows from was read {}s ago, and another may lead since",
            passed.as_secs()
        );
        let error = kube::Error::Service(text.into());
        Err(StepError::new(format!("{action} of Machine {machine}"), error))
    }

    /// Takes a step. Taking it twice does what taking it once does.
    pub(super) async fn take(&mut self, step: &Step) -> Result<(), StepError> {
        let name = step.machine().unwrap_or(NAME);
        match &step.action {
            Action::Create { machine, .. } => {
                let created = self.create(machine).await;
                if let (Err(failure), Some(index)) = (&created, step.index)
                    && !failure.is_refusal()
                {
                    self.writes.never_answered(index, machine, self.cluster.instant());
                }
                created
            }
            Action::Delete { .. } => self.delete(name, step).await,
            Action::Patch { patch, .. } => {
                let what = Object::Machine(name.to_owned());
                let written = self.cluster.patch(&what, false, patch.clone()).await;
                let written = written.map_err(|error| StepError::new(format!("patching Machine {name}"), error))?;
                self.changed(what, &written);
                Ok(())
            }
            Action::PatchSet(patch) | Action::RemoveRecords(patch) => {
                let what = Object::Set(NAME.to_owned());
                let written = self.cluster.patch(&what, false, patch.clone()).await;
                let written = written
                    .map_err(|error| StepError::new(format!("patching ControlPlaneMachineSet {NAME}"), error))?;
                self.changed(what, &written);
                Ok(())
            }
        }
    }

    async fn create(&mut self, machine: &Machine) -> Result<(), StepError> {
        let name = machine.metadata.name();
        let step = format!("creating Machine {name}");
        let object = serde_json::to_value(machine);
        let object = object.map_err(|error| StepError::new(&step, kube::Error::SerdeError(error)))?;
        let what = Object::Machine(name.to_owned());
        let written = match self.cluster.create(&what, object).await {
            Ok(created) => created,
            Err(kube::Error::Api(status)) if status.code == 409 && status.reason == "AlreadyExists" => {
                // The name says which machine it is: a reply that was lost, or another leader. Unless somebody else
                // took the name.
                let there = self.cluster.machine(name).await;
                let there = there.map_err(|error| StepError::new(&step, error))?;
                match there.content {
                    Ok(there) if is_ours(&there, machine) => Written {
                        uid: there.metadata.uid().to_owned(),
                        version: there.metadata.resource_version.clone().unwrap_or_default(),
                        lists_machines: false,
                    },
                    _ => return Err(StepError::new(step, kube::Error::Api(status))),
                }
            }
            Err(error) => return Err(StepError::new(step, error)),
        };
        self.writes
            .created(what, &written.uid, &written.version, self.cluster.instant());
        Ok(())
    }

    async fn delete(&mut self, name: &str, step: &Step) -> Result<(), StepError> {
        let params = DeleteParams {
            preconditions: step.precondition.as_ref().map(|precondition| Preconditions {
                uid: Some(precondition.uid.clone()),
                resource_version: Some(precondition.resource_version.clone()),
            }),
            propagation_policy: Some(PropagationPolicy::Background),
            ..DeleteParams::default()
        };
        match self.cluster.delete(name, &params).await {
            // Without a body it is gone at once.
            Ok(answer) => {
                if let Some(going) = answer {
                    self.changed(Object::Machine(name.to_owned()), &going);
                }
            }
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => return Err(StepError::new(format!("deleting Machine {name}"), error)),
        }
        Ok(())
    }

    /// Writes the status of the set as it was read; not if it changed since. The answer is how it is stored: a
    /// definition that does not know a field drops it.
    pub(super) async fn status(&mut self, set: &ControlPlaneMachineSet, status: Value) -> Result<Written, StepError> {
        let meta = &set.metadata;
        let metadata = json!({"uid": meta.uid, "resourceVersion": meta.resource_version});
        let patch = fields([("metadata", metadata), ("status", status)]);
        let what = Object::Set(NAME.to_owned());
        let written = self.cluster.patch(&what, true, patch).await;
        let written = written
            .map_err(|error| StepError::new(format!("writing the status of ControlPlaneMachineSet {NAME}"), error))?;
        self.changed(what, &written);
        Ok(written)
    }

    /// Writes the status of our ClusterOperator, which is made if it is not there. The answer is how it is stored.
    pub(super) async fn operator(&mut self, exists: bool, status: Value) -> Result<Written, StepError> {
        let name = cluster_operator::NAME;
        let failure = |error| StepError::new(format!("writing ClusterOperator {name}"), error);
        if !exists {
            let object = json!({
                "apiVersion": "config.openshift.io/v1",
                "kind": cluster_operator::KIND,
                "metadata": {"name": name},
                "spec": {},
            });
            match self.cluster.create(&Object::ClusterOperator, object).await {
                Ok(_) => {}
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                Err(error) => return Err(failure(error)),
            }
        }
        let patch = fields([("status", status)]);
        let written = self.cluster.patch(&Object::ClusterOperator, true, patch).await;
        let written = written.map_err(failure)?;
        let (object, now) = (Object::ClusterOperator, self.cluster.instant());
        self.writes.created(object, &written.uid, &written.version, now);
        Ok(written)
    }

    fn changed(&mut self, object: Object, written: &Written) {
        self.writes
            .changed(object, &written.uid, &written.version, self.cluster.instant());
    }
}

/// An object of these fields, which are not copied.
fn fields<const N: usize>(fields: [(&str, Value); N]) -> Value {
    let fields = fields.into_iter().map(|(name, value)| (name.to_owned(), value));
    Value::Object(fields.collect())
}

/// Whether the machine that has the name is the one that was to be made: of the same set, for the same purpose.
fn is_ours(there: &Machine, wanted: &Machine) -> bool {
    let owner = wanted.metadata.controller().map(|owner| owner.uid.as_str());
    let mut owners = there.metadata.owner_references.iter().map(|owner| owner.uid.as_str());
    owner.is_some_and(|owner| owners.any(|there| there == owner))
        && there.metadata.annotations.get(REPLACES) == wanted.metadata.annotations.get(REPLACES)
}
