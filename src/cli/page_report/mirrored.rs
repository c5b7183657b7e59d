//! The objects that exist in both APIs, in words: which one is authoritative, whether its mirror is
//! synchronized, and how far a migration is.
//!
//! The decisions are those of `capstan_core::authority`. Both objects of a pair are read, but not
//! the infrastructure, as in admission.

use std::collections::BTreeMap;

use capstan_core::api::{cluster_x_k8s_io, machine_openshift_io};
use capstan_core::authority::config::Config;
use capstan_core::authority::plan::{Observed, Step, next};
use capstan_core::authority::spec::{Api, Authority, PairMember};

use crate::cli::documents::Document;
use crate::dashboard::{Mirrored, Mood, Side};

/// The kind of a machine in both APIs.
pub(super) const MACHINE: &str = "Machine";

/// The kinds that exist in both APIs.
const KINDS: [&str; 3] = [MACHINE, "MachineSet", "MachineHealthCheck"];

/// The objects of both APIs, by kind and name: of the Machine API, and of Cluster API.
#[derive(Default)]
pub(super) struct Pairs(BTreeMap<(String, String), (Option<PairMember>, Option<PairMember>)>);

impl Pairs {
    /// Adds an object.
    pub(super) fn add(&mut self, api: Api, kind: &str, member: PairMember) {
        let pair = self.0.entry((kind.to_owned(), member.name.clone())).or_default();
        match api {
            Api::MachineApi => pair.0 = Some(member),
            Api::ClusterApi => pair.1 = Some(member),
        }
    }

    /// The objects of both APIs among documents.
    pub(super) fn of_documents(documents: &[Document], config: &Config) -> Self {
        let mut pairs = Self::default();
        for document in documents {
            let [group, kind, namespace, _] = document.identity();
            let api = match group {
                machine_openshift_io::GROUP => Api::MachineApi,
                cluster_x_k8s_io::GROUP => Api::ClusterApi,
                _ => continue,
            };
            let is_home = namespace.is_empty() || namespace == config.namespace(api);
            if is_home && KINDS.contains(&kind) {
                pairs.add(api, kind, PairMember::read(&document.object));
            }
        }
        pairs
    }

    /// The pairs in words. An object of Cluster API without a counterpart is not mirrored. An
    /// object of the Machine API is mirrored if it has a counterpart or names the authoritative
    /// API.
    pub(super) fn shown(&self) -> Vec<Mirrored> {
        let pairs = self.0.iter();
        let shown = pairs.filter_map(|((kind, name), (machine_api, cluster_api))| {
            let machine_api = machine_api.as_ref()?;
            let names_api = machine_api.spec_authority.is_some() || machine_api.status_authority.is_some();
            (names_api || cluster_api.is_some()).then(|| in_words(kind, name, machine_api, cluster_api.as_ref()))
        });
        shown.collect()
    }
}

fn in_words(kind: &str, name: &str, machine_api: &PairMember, cluster_api: Option<&PairMember>) -> Mirrored {
    let authority = machine_api.authority();
    let condition = machine_api.synchronized.as_ref();
    let synchronized = match condition {
        Some(condition) if condition.is_true() => String::from("yes"),
        Some(condition) if condition.status == "False" => format!("no: {}", condition.message),
        Some(condition) if !condition.message.is_empty() => format!("not known: {}", condition.message),
        _ => String::from("not reported"),
    };
    let step = next(&Observed::of(machine_api, cluster_api));
    let is_missing = authority == Authority::Stable(Api::ClusterApi) && cluster_api.is_none();
    let is_alarm = is_missing || step == Step::Stop || condition.is_some_and(|known| known.status == "False");
    let migration = migration(step, machine_api);
    Mirrored {
        kind: kind.to_owned(),
        name: name.to_owned(),
        authoritative: match authority {
            Authority::Stable(Api::MachineApi) => Some(Side::MachineApi),
            Authority::Stable(Api::ClusterApi) => Some(Side::ClusterApi),
            Authority::Migrating => None,
        },
        in_cluster_api: cluster_api.is_some(),
        synchronized,
        mood: match (is_alarm, migration.is_empty()) {
            (true, _) => Mood::Alarm,
            (false, false) => Mood::Busy,
            (false, true) => Mood::Calm,
        },
        migration,
    }
}

/// The state of the migration in words; empty if none is requested.
fn migration(step: Step, machine_api: &PairMember) -> String {
    let to = machine_api.desired_api().title();
    match step {
        Step::Idle(_) => String::new(),
        Step::InitializeStatus(_) => String::from("the status does not name the authoritative API yet"),
        Step::Stop => String::from("stopped: the status does not record which API was authoritative"),
        Step::AwaitSource { from } => format!("to {to}: waits until the object in {} is in use", from.title()),
        Step::AwaitSynchronization { .. } => format!("to {to}: waits until the mirror is synchronized"),
        Step::AwaitRecord { .. } => format!("to {to}: waits until the status records where it comes from"),
        Step::Begin { .. } => format!("to {to}: begins, and locks both objects"),
        Step::PauseSource { from } => format!("to {to}: the controllers of {} pause", from.title()),
        Step::Synchronize { from } => format!("to {to}: the last changes are copied from {}", from.title()),
        Step::HandOverFinalizers { .. } | Step::Finish { .. } => format!("to {to}: is almost complete"),
        Step::PauseTarget { back_to } | Step::Cancel { back_to } => {
            format!("cancelled: {} becomes authoritative again", back_to.title())
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn shown(objects: &[Value]) -> Vec<Mirrored> {
        let documents: Vec<Document> = objects
            .iter()
            .map(|object| Document {
                file: String::new(),
                line: 0,
                object: object.clone(),
            })
            .collect();
        Pairs::of_documents(&documents, &Config::default()).shown()
    }

    fn machine_api(spec: &str, status: &Value) -> Value {
        json!({"apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine",
            "metadata": {"name": "m", "namespace": "openshift-machine-api", "generation": 2},
            "spec": {"authoritativeAPI": spec}, "status": status})
    }

    fn cluster_api() -> Value {
        json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
            "metadata": {"name": "m", "namespace": "openshift-cluster-api"}, "spec": {}})
    }

    fn synchronized(status: &str, message: &str) -> Value {
        json!([{"type": "Synchronized", "status": status, "message": message}])
    }

    #[test]
    fn a_pair_has_its_authority_its_synchronization_and_its_migration() {
        let status = json!({"authoritativeAPI": "MachineAPI", "synchronizedAPI": "MachineAPI",
            "synchronizedGeneration": 2, "conditions": synchronized("True", "")});
        let calm = shown(&[machine_api("MachineAPI", &status), cluster_api()]);
        let [pair] = calm.as_slice() else { panic!("{calm:?}") };
        assert_eq!(
            (pair.authoritative, pair.in_cluster_api),
            (Some(Side::MachineApi), true)
        );
        assert_eq!((pair.synchronized.as_str(), pair.mood), ("yes", Mood::Calm));
        assert_eq!(pair.migration, "");
        let requested = shown(&[machine_api("ClusterAPI", &status), cluster_api()]);
        assert_eq!(
            (requested[0].migration.as_str(), requested[0].mood),
            ("to Cluster API: begins, and locks both objects", Mood::Busy)
        );
        let status = json!({"authoritativeAPI": "Migrating", "synchronizedAPI": "MachineAPI"});
        let migrating = shown(&[machine_api("ClusterAPI", &status), cluster_api()]);
        assert_eq!(migrating[0].authoritative, None);
        assert_eq!(
            migrating[0].migration,
            "to Cluster API: the controllers of the Machine API pause"
        );
    }

    #[test]
    fn a_pair_that_needs_a_user_is_an_alarm() {
        let failed =
            json!({"authoritativeAPI": "MachineAPI", "conditions": synchronized("False", "the field x is lost")});
        let failed = shown(&[machine_api("MachineAPI", &failed), cluster_api()]);
        assert_eq!(
            (failed[0].synchronized.as_str(), failed[0].mood),
            ("no: the field x is lost", Mood::Alarm)
        );
        let stopped = shown(&[
            machine_api("ClusterAPI", &json!({"authoritativeAPI": "Migrating"})),
            cluster_api(),
        ]);
        assert_eq!(stopped[0].mood, Mood::Alarm);
        assert!(stopped[0].migration.starts_with("stopped"), "{stopped:?}");
        let missing = shown(&[machine_api("ClusterAPI", &json!({"authoritativeAPI": "ClusterAPI"}))]);
        assert_eq!((missing[0].mood, missing[0].in_cluster_api), (Mood::Alarm, false));
    }

    #[test]
    fn an_object_without_a_counterpart_is_not_mirrored() {
        let mut plain = machine_api("", &json!({}));
        plain["spec"] = json!({});
        assert_eq!(shown(&[plain.clone()]), []);
        assert_eq!(shown(&[cluster_api()]), []);
        let mut elsewhere = cluster_api();
        elsewhere["metadata"]["namespace"] = json!("other");
        assert_eq!(shown(&[plain, elsewhere]), []);
    }
}
