//! What the controller reads that no cache contains: infrastructure objects of unknown kinds, the
//! managed cluster, Secrets without the label of their Cluster, and keys that were issued just now.
//!
//! Everything belongs to one control plane, and is forgotten with it. A key stays here only until
//! its Secret exists.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use capstan_core::api::cluster_x_k8s_io::control_plane::Machine;
use capstan_core::api::kind::KindInfo;
use capstan_core::kcp::addons;
use capstan_core::kcp::certificates::{FoundSecret, Purpose, SECRET_TYPE};
use capstan_core::kcp::expiry;
use capstan_core::kcp::inspection::Failure;
use capstan_core::kcp::propagation::{Desired, metadata_patch};
use capstan_core::kcp::state::MachineState;
use capstan_core::model::ObjectRef;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::inspect::{Inspected, Wanted, inspect};
use super::issue::Kubeconfig;
use super::objects::{KeySecret, SECRETS, SecretSummary, WholeObject};
use super::{Found, KubeadmControlPlanes, Port};
use crate::runtime::{Cluster, StepError};
use crate::workload::KeyPair;

/// For how long an inspection of the managed cluster is used again. Before a machine is created or
/// deleted, the cluster is inspected again in any case.
const AGE: Duration = Duration::from_secs(1);

/// The longest time between two attempts that find the same silence. What happened between two
/// attempts further apart is not known.
const SAME_SILENCE: Duration = Duration::from_secs(60);

/// For how long an infrastructure machine is known, because its kind is not watched. What another
/// program changes, or a request that arrives late, is corrected then (V291).
const KNOWN_FOR: Duration = Duration::from_secs(600);

/// The time between two attempts to read a certificate.
const ASKED_AGAIN: Duration = Duration::from_secs(600);

/// Group, kind, and name of an object of an unknown kind.
pub(super) type Reference = [String; 3];

/// What is known of the surroundings of a control plane.
#[derive(Clone, Default)]
pub(super) struct Known {
    /// The uid of the control plane: one that is created again under the same name is another one.
    pub(super) uid: String,
    pub(super) inspected: Option<Arc<Inspected>>,
    at: Option<Instant>,
    /// Since when no server answers at the address of the managed cluster.
    silent_since: Option<Instant>,
    /// The Cluster and the version of the kubeconfig of which that is true.
    contacted: [String; 2],
    /// The version of a kubeconfig without the label of the Cluster.
    unlabelled_kubeconfig: String,
    /// The infrastructure machines with their kinds; `None` for one that does not exist.
    pub(super) infrastructure: BTreeMap<Reference, Option<Arc<(Value, KindInfo)>>>,
    /// When they were read.
    read_at: BTreeMap<Reference, Instant>,
    /// The template of infrastructure machines, with the kind of a machine.
    pub(super) template: Option<(Reference, Arc<Value>, KindInfo)>,
    /// Secrets without the label of the Cluster.
    pub(super) secrets: Vec<FoundSecret>,
    /// When the certificate of the API server of a machine expires, as it was read, and when that
    /// was tried.
    pub(super) expiries: BTreeMap<String, (Option<Timestamp>, Instant)>,
    /// Secrets that were issued and are not stored yet, by name.
    pub(super) issued: BTreeMap<String, Arc<Value>>,
}

impl Known {
    /// Nothing about the control plane with this uid.
    pub(super) fn nothing(uid: &str) -> Self {
        Self {
            uid: uid.to_owned(),
            ..Self::default()
        }
    }

    /// An infrastructure machine that exists and was read a short time ago.
    fn recent(&self, reference: &Reference, now: Instant) -> Option<&(Value, KindInfo)> {
        let at = self.read_at.get(reference)?;
        let object = self.infrastructure.get(reference)?.as_deref();
        object.filter(|_| now.duration_since(*at) < KNOWN_FOR)
    }

    /// For how long no server has answered at the address of the managed cluster.
    pub(super) fn silent_for(&self, now: Instant) -> Option<SignedDuration> {
        SignedDuration::try_from(now.duration_since(self.silent_since?)).ok()
    }
}

impl std::fmt::Debug for Known {
    /// Never prints a key.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Known")
    }
}

impl<W: Port> KubeadmControlPlanes<W> {
    /// Reads what is missing. Returns whether anything is new.
    pub(super) async fn read_surroundings<C: Cluster>(&self, cluster: &C, found: &Found) -> bool {
        let mut known = self.known(&found.key, &found.object.metadata);
        let infrastructure = read_machines(cluster, found, &mut known).await;
        let secrets = read_secrets(cluster, found, &mut known).await;
        let issued = self.issue(cluster, found, &mut known).await;
        let inspected = self.inspect(cluster, found, &mut known, AGE).await;
        let expiries = self.read_expiries(found, &mut known, cluster.instant()).await;
        let is_new = infrastructure || secrets || issued || inspected || expiries;
        self.remember(&found.key, known);
        is_new
    }

    /// Reads what a creation or a deletion depends on, whatever its age. The machines were read
    /// just now.
    ///
    /// # Errors
    /// An infrastructure machine or the infrastructure template cannot be read.
    pub(super) async fn read_before_a_step<C: Cluster>(
        &self,
        cluster: &C,
        found: &Found,
        machines: &[Arc<Machine>],
    ) -> Result<(), StepError> {
        let mut known = self.known(&found.key, &found.object.metadata);
        read_leaving(cluster, machines, &mut known).await?;
        if found.creates() {
            known.template = Some(read_template(cluster, found).await?);
        }
        self.inspect(cluster, found, &mut known, Duration::ZERO).await;
        self.remember(&found.key, known);
        Ok(())
    }

    /// Reads the certificates of the API servers of machines. After a failure, the next attempt
    /// follows some minutes later.
    async fn read_expiries(&self, found: &Found, known: &mut Known, now: Instant) -> bool {
        let (state, plan) = (&found.assessment.state, &found.assessment.plan);
        known.expiries.retain(|machine, _| state.machine(machine).is_some());
        let Some(managed) = found.managed.as_ref().filter(|_| addons::is_due(state, plan)) else {
            return false;
        };
        let mut is_new = false;
        for machine in &state.machines {
            let config = found.configs.get(&machine.machine.spec.bootstrap.config_ref.name);
            let Some(server) = config.and_then(|config| expiry::api_server(machine, &config.value)) else {
                continue;
            };
            let tried = known.expiries.get(machine.name());
            if tried.is_some_and(|(expires, at)| expires.is_some() || now.duration_since(*at) < ASKED_AGAIN) {
                continue;
            }
            let asked = self.managed.serving_expiry(managed, &server).await;
            let expires = asked
                .inspect_err(|error| tracing::warn!(%error, machine = machine.name(), "the expiry of a certificate is not known"))
                .ok();
            is_new |= expires.is_some();
            known.expiries.insert(machine.name().to_owned(), (expires, now));
        }
        is_new
    }

    async fn inspect<C: Cluster>(&self, cluster: &C, found: &Found, known: &mut Known, age: Duration) -> bool {
        let now = cluster.instant();
        let Some(managed) = found.managed.as_ref().filter(|_| found.can_be_inspected) else {
            known.silent_since = None;
            return false;
        };
        if known.at.is_some_and(|at| now.duration_since(at) < age) {
            return false;
        }
        let (state, plan) = (&found.assessment.state, &found.assessment.plan);
        let wanted = Wanted {
            etcd: state.is_etcd_managed(),
            addons: addons::is_due(state, plan),
        };
        let inspected = inspect(&self.managed, managed, wanted).await;
        let is_new = known.inspected.as_deref() != Some(&inspected);
        let contacted = [managed.uid.clone(), found.kubeconfig_version(known)];
        if known.contacted != contacted {
            known.contacted = contacted;
            known.silent_since = None;
        }
        let is_silent = matches!(inspected.inspection.nodes, Err(Failure::Silent(_)));
        let continues = known.at.is_some_and(|at| now.duration_since(at) <= SAME_SILENCE);
        let since = known.silent_since.filter(|_| continues).unwrap_or(now);
        known.silent_since = is_silent.then_some(since);
        known.inspected = Some(Arc::new(inspected));
        // An attempt without an answer takes seconds.
        known.at = Some(cluster.instant());
        is_new
    }
}

impl<W> KubeadmControlPlanes<W> {
    /// Removes a member from the last inspection, because this process removed it from etcd.
    /// Otherwise its Machine, which is soon gone, would be reported as missing.
    pub(super) fn forget_member(&self, key: &ObjectRef, member: &str) {
        let mut all = self.lock();
        let inspected = all.get_mut(key).and_then(|known| known.inspected.as_mut());
        if let Some(Ok(etcd)) = inspected.map(|inspected| &mut Arc::make_mut(inspected).inspection.etcd) {
            etcd.members.retain(|there| there.name != member);
        }
    }
}

/// Reads infrastructure machines that are not known, and those that lack labels or annotations as
/// they were read. The annotations that are compared never change.
async fn read_machines<C: Cluster>(cluster: &C, found: &Found, known: &mut Known) -> bool {
    let state = &found.assessment.state;
    let machines = state
        .machines
        .iter()
        .map(|machine| (reference(&machine.machine), machine));
    let machines: Vec<(Reference, &MachineState)> = machines
        .filter(|(reference, _)| reference.iter().all(|text| !text.is_empty()))
        .collect();
    known
        .infrastructure
        .retain(|known, _| machines.iter().any(|(reference, _)| reference == known));
    let now = cluster.instant();
    known
        .read_at
        .retain(|reference, at| known.infrastructure.contains_key(reference) && now.duration_since(*at) < KNOWN_FOR);
    let mut is_new = false;
    let desired = Desired::of(state);
    for (reference, machine) in machines {
        let lacks = |object: &(Value, KindInfo)| metadata_patch(&desired, machine, &object.0).is_some();
        if known.recent(&reference, now).is_some_and(|object| !lacks(object)) {
            continue;
        }
        match read(cluster, state.namespace(), &reference).await {
            Ok(object) => {
                let object = object.map(Arc::new);
                is_new |= known.infrastructure.get(&reference) != Some(&object);
                known.read_at.insert(reference.clone(), now);
                known.infrastructure.insert(reference, object);
            }
            Err(error) => tracing::warn!(%error, "an infrastructure machine cannot be read"),
        }
    }
    is_new
}

/// Reads the infrastructure machines of machines that are being deleted. A provider ID that appears
/// there says that the instance may still join, and perhaps never reaches the Machine (V246).
///
/// # Errors
/// One of them cannot be read.
async fn read_leaving<C: Cluster>(cluster: &C, machines: &[Arc<Machine>], known: &mut Known) -> Result<(), StepError> {
    let is_unknown = |machine: &&Arc<Machine>| machine.metadata.is_deleting() && machine.spec.provider_id.is_empty();
    for machine in machines.iter().filter(is_unknown) {
        let reference = reference(machine);
        if reference.iter().any(String::is_empty) {
            continue;
        }
        let namespace = machine.metadata.namespace.as_deref().unwrap_or_default();
        let object = read(cluster, namespace, &reference).await?;
        known.infrastructure.insert(reference, object.map(Arc::new));
    }
    Ok(())
}

/// The reference of a machine to its infrastructure machine.
pub(super) fn reference(machine: &Machine) -> Reference {
    let reference = &machine.spec.infrastructure_ref;
    [
        reference.api_group.clone(),
        reference.kind.clone(),
        reference.name.clone(),
    ]
}

/// An object of a kind that is known only at run time.
async fn read<C: Cluster>(
    cluster: &C,
    namespace: &str,
    [group, kind, name]: &Reference,
) -> Result<Option<(Value, KindInfo)>, StepError> {
    let step = || format!("reading {kind} {namespace}/{name}");
    let discovered = cluster.discover(group, kind).await;
    let Some(info) = discovered.map_err(|error| StepError::new(step(), error))? else {
        return Ok(None);
    };
    let object = cluster.get::<WholeObject>(&info, namespace, name).await;
    let object = object.map_err(|error| StepError::new(step(), error))?;
    let object = object.and_then(|object| object.content.ok());
    Ok(object.map(|object| (object.of_kind(&info), info)))
}

/// The template of infrastructure machines, and the kind of its clones.
async fn read_template<C: Cluster>(cluster: &C, found: &Found) -> Result<(Reference, Arc<Value>, KindInfo), StepError> {
    let state = &found.assessment.state;
    let wanted = &state.control_plane.spec.machine_template.spec.infrastructure_ref;
    let reference = [wanted.api_group.clone(), wanted.kind.clone(), wanted.name.clone()];
    let missing = |what: String| {
        let step = format!("reading {} {}/{}", wanted.kind, state.namespace(), wanted.name);
        StepError::new(step, kube::Error::Service(what.into()))
    };
    let Some((template, _)) = read(cluster, state.namespace(), &reference).await? else {
        return Err(missing(String::from("the infrastructure template must exist")));
    };
    let kind = wanted.kind.strip_suffix("Template").unwrap_or(&wanted.kind);
    let machine = cluster.discover(&wanted.api_group, kind).await;
    let machine = machine.map_err(|error| StepError::new(format!("discovering {kind}"), error))?;
    let machine = machine.ok_or_else(|| missing(format!("the kind {kind} must be served")))?;
    Ok((reference, Arc::new(template), machine))
}

/// Looks for needed Secrets that the caches do not show: those of users may have no label.
async fn read_secrets<C: Cluster>(cluster: &C, found: &Found, known: &mut Known) -> bool {
    let state = &found.assessment.state;
    let renewed = found.renews_kubeconfig().then(|| found.kubeconfig_secret());
    known
        .issued
        .retain(|name, _| !found.has_secret(name) || Some(name) == renewed.as_ref());
    if !found.may_write_secrets() {
        return false;
    }
    let needed = capstan_core::kcp::certificates::purposes(state);
    let needed = needed.iter().map(|purpose| purpose.secret(&state.cluster_name));
    known.unlabelled_kubeconfig = String::new();
    let mut secrets = Vec::new();
    for name in needed.chain([found.kubeconfig_secret()]) {
        // What is known without a label is read again, because it is not watched.
        if found.has_labelled_secret(&name) {
            continue;
        }
        let read = cluster.get::<SecretSummary>(&SECRETS, state.namespace(), &name);
        match read.await {
            Ok(Some(secret)) => {
                let Ok(secret) = secret.content else { continue };
                if name == found.kubeconfig_secret() {
                    known.unlabelled_kubeconfig = secret.version();
                }
                secrets.push(secret.found());
            }
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(%error, name, "a Secret cannot be read");
                // It may exist, so nothing is issued.
                known.issued.clear();
                return false;
            }
        }
    }
    let is_new = secrets != known.secrets;
    known.secrets = secrets;
    is_new
}

impl<W: Port> KubeadmControlPlanes<W> {
    /// Issues what must be generated, and the kubeconfig.
    async fn issue<C: Cluster>(&self, cluster: &C, found: &Found, known: &mut Known) -> bool {
        let mut is_new = false;
        if !found.may_write_secrets() {
            return false;
        }
        for generation in &found.assessment.certificates.generate {
            let is_stored = known.secrets.iter().any(|secret| secret.name == generation.secret);
            if is_stored || known.issued.contains_key(&generation.secret) {
                continue;
            }
            match self.managed.authority(generation).await {
                Ok(pair) => {
                    let data = json!({"tls.crt": pair.public, "tls.key": pair.key});
                    let body = found.secret(&generation.secret, &data);
                    known.issued.insert(generation.secret.clone(), Arc::new(body));
                    is_new = true;
                }
                Err(error) => tracing::error!(error, secret = generation.secret, "a Secret cannot be issued"),
            }
        }
        is_new | self.issue_kubeconfig(cluster, found, known).await
    }

    /// Issues a kubeconfig that is missing or expires soon.
    async fn issue_kubeconfig<C: Cluster>(&self, cluster: &C, found: &Found, known: &mut Known) -> bool {
        let state = &found.assessment.state;
        let name = found.kubeconfig_secret();
        let is_unlabelled = known.secrets.iter().any(|secret| secret.name == name);
        let is_issued = is_unlabelled || known.issued.contains_key(&name);
        let Some(server) = found.needs_kubeconfig().filter(|_| !is_issued) else {
            return false;
        };
        let authority = Purpose::Cluster.secret(&state.cluster_name);
        let secret = cluster.get::<KeySecret>(&SECRETS, state.namespace(), &authority).await;
        let pair = secret.ok().flatten().and_then(|secret| secret.content.ok());
        let Some(secret) = pair else { return false };
        let wanted = Kubeconfig {
            cluster: state.cluster_name.clone(),
            server,
            authority: KeyPair {
                public: secret.certificate.clone(),
                key: secret.key.clone(),
            },
            algorithm: found.algorithm(),
        };
        match self.managed.kubeconfig(wanted).await {
            Ok(kubeconfig) => {
                let body = found.secret(&name, &json!({"value": kubeconfig}));
                known.issued.insert(name, Arc::new(body));
                true
            }
            Err(error) => {
                tracing::error!(error, secret = name, "the kubeconfig cannot be issued");
                false
            }
        }
    }
}

impl Found {
    /// The version of the kubeconfig; empty without one.
    fn kubeconfig_version(&self, known: &Known) -> String {
        let labelled = self.labelled_secret(&self.kubeconfig_secret());
        labelled.map_or_else(|| known.unlabelled_kubeconfig.clone(), SecretSummary::version)
    }

    /// The body of a Secret of the Cluster.
    fn secret(&self, name: &str, data: &Value) -> Value {
        let state = &self.assessment.state;
        json!({
            "apiVersion": "v1", "kind": "Secret", "type": SECRET_TYPE,
            "metadata": {
                "name": name, "namespace": state.namespace(),
                "labels": {capstan_core::api::cluster_x_k8s_io::label::CLUSTER: state.cluster_name},
                "ownerReferences": [self.owner()],
            },
            "stringData": data,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use capstan_core::api::objects::CachedObject;

    use super::*;
    use crate::runtime::{ReadOnly, Reads, WatchedObject};

    static DEV_MACHINES: KindInfo = KindInfo::namespaced("infra", "v1", "DevMachine", "devmachines");

    /// An API server with one infrastructure machine, which has this provider ID, or that answers
    /// nothing.
    #[derive(Clone, Default)]
    struct Fake(Arc<Mutex<Option<&'static str>>>);

    impl Fake {
        fn set(&self, id: Option<&'static str>) {
            *self.0.lock().unwrap() = id;
        }
    }

    impl Reads for Fake {
        fn get<T: CachedObject>(&self, _: &KindInfo, _: &str, name: &str) -> kube::Result<Option<WatchedObject<T>>> {
            let Some(id) = *self.0.lock().unwrap() else {
                return Err(kube::Error::Service("no answer".into()));
            };
            let object = json!({
                "apiVersion": "infra/v1", "kind": "DevMachine",
                "metadata": {"name": name, "namespace": "ns"}, "spec": {"providerID": id},
            });
            Ok(Some(WatchedObject::of(object)))
        }

        fn discover(&self, _: &str, _: &str) -> kube::Result<Option<KindInfo>> {
            Ok(Some(DEV_MACHINES.clone()))
        }
    }

    fn machine(deletion: Option<&str>) -> Arc<Machine> {
        let machine = json!({
            "metadata": {"name": "m", "namespace": "ns", "deletionTimestamp": deletion},
            "spec": {"infrastructureRef": {"apiGroup": "infra", "kind": "DevMachine", "name": "m"}},
        });
        Arc::new(serde_json::from_value(machine).unwrap())
    }

    #[tokio::test]
    async fn v291_an_infrastructure_machine_is_read_again_after_ten_minutes() {
        let mut known = Known::default();
        let (reference, at) = (reference(&machine(None)), Instant::now());
        let object = Arc::new((json!({}), DEV_MACHINES.clone()));
        known.infrastructure.insert(reference.clone(), Some(object));
        known.read_at.insert(reference.clone(), at);
        let is_known = |seconds: u64| known.recent(&reference, at + Duration::from_secs(seconds)).is_some();
        assert!(is_known(599) && !is_known(600));
    }

    #[tokio::test]
    async fn v246_the_instance_of_a_machine_that_is_being_deleted_is_read_before_its_hook_is_removed() {
        let cluster = ReadOnly::<Fake>::default();
        let mut known = Known::default();
        let leaving = [machine(Some("2026-06-01T11:00:00Z"))];
        let id = |known: &Known| {
            let object = known.infrastructure.get(&reference(&leaving[0]))?.as_ref()?;
            object.0.pointer("/spec/providerID").cloned()
        };
        cluster.0.set(Some(""));
        read_leaving(&cluster, &leaving, &mut known).await.unwrap();
        assert_eq!(id(&known), Some(json!("")));
        cluster.0.set(Some("dev://m"));
        read_leaving(&cluster, &[machine(None)], &mut known).await.unwrap();
        assert_eq!(id(&known), Some(json!("")), "a machine that stays keeps its hook");
        read_leaving(&cluster, &leaving, &mut known).await.unwrap();
        assert_eq!(id(&known), Some(json!("dev://m")));
        cluster.0.set(None);
        assert!(read_leaving(&cluster, &leaving, &mut known).await.is_err());
    }
}
