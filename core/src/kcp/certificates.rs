//! The Secrets with the certificate authorities and keys of a managed cluster: which ones are
//! generated, which ones are missing, and which ones get the control plane as their controller.
//!
//! A generated authority is the identity of the cluster: a second one makes every kubelet, user and
//! etcd member a stranger. So nothing is generated once the control plane was initialized, and also
//! not while it has a machine: a status can be lost, for example when objects are restored. Nothing
//! here reads a key, and a Secret that exists is never written over.

use jiff::{SignedDuration, Timestamp};

use super::pending::LAST_CREATED;
use super::state::{State, is_owner};
use super::status::Condition;
use crate::api::controlplane_cluster_x_k8s_io::{API_VERSION, GROUP, kubeadm_control_plane};
use crate::api::meta::OwnerReference;

/// The type of the Secrets that Cluster API generates.
pub const SECRET_TYPE: &str = "cluster.x-k8s.io/secret";
/// The validity of an authority if the control plane does not set it.
const DEFAULT_DAYS: i32 = 3650;
/// The algorithm of keys if the control plane does not set it.
const DEFAULT_ALGORITHM: &str = "RSA-2048";
/// The type of the condition.
const TYPE: &str = "CertificatesAvailable";

/// A kubeconfig is renewed when less time than this is left.
const RENEWED_BEFORE: SignedDuration = SignedDuration::from_hours(24 * 365 / 2);

/// Whether the client certificate of a kubeconfig is replaced at a moment.
pub fn is_renewed(expires: Timestamp, now: Timestamp) -> bool {
    expires.duration_since(now) < RENEWED_BEFORE
}

/// What a Secret is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purpose {
    /// The authority of the API server, its users, and the kubelets.
    Cluster,
    /// The authority of the etcd members. With external etcd, only its certificate is needed.
    Etcd,
    /// The key pair that signs the tokens of service accounts.
    ServiceAccount,
    /// The authority of aggregated API servers.
    FrontProxy,
    /// The client certificate for external etcd.
    ApiServerEtcdClient,
}

impl Purpose {
    /// The end of the name of the Secret.
    fn suffix(self) -> &'static str {
        match self {
            Self::Cluster => "ca",
            Self::Etcd => "etcd",
            Self::ServiceAccount => "sa",
            Self::FrontProxy => "proxy",
            Self::ApiServerEtcdClient => "apiserver-etcd-client",
        }
    }

    /// The name of the Secret of a Cluster.
    pub fn secret(self, cluster: &str) -> String {
        format!("{cluster}-{}", self.suffix())
    }

    /// Whether a user supplies the Secret.
    fn is_supplied(self, etcd_is_managed: bool) -> bool {
        !etcd_is_managed && matches!(self, Self::Etcd | Self::ApiServerEtcdClient)
    }
}

/// A Secret that exists. Its contents stay outside of core.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FoundSecret {
    /// The name.
    pub name: String,
    /// The type, for example `cluster.x-k8s.io/secret`.
    pub type_: String,
    /// Whether `tls.crt` is not empty.
    pub has_certificate: bool,
    /// Whether `tls.key` is not empty.
    pub has_key: bool,
    /// The owner that manages it.
    pub controller: Option<OwnerReference>,
}

/// A Secret to generate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generation {
    /// What it is for.
    pub purpose: Purpose,
    /// Its name.
    pub secret: String,
    /// The algorithm of the key, for example `RSA-2048` or `ECDSA-P256`.
    pub algorithm: String,
    /// How many days the authority is valid.
    pub days: i32,
}

/// What happens to the Secrets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Certificates {
    /// Secrets to create. An existing Secret of the name must make the creation fail.
    pub generate: Vec<Generation>,
    /// Secrets whose controller becomes this control plane.
    pub own: Vec<String>,
    /// What must be true of Secrets that are missing or incomplete, and that are not generated.
    pub missing: Vec<String>,
}

impl Certificates {
    /// The condition at this moment: a Secret that is to be generated does not exist.
    pub fn condition_now(&self) -> Condition {
        let mut now = self.clone();
        let generated = now.generate.drain(..);
        let missing = generated.map(|one| format!("Secret {} must exist; it is generated", one.secret));
        now.missing.extend(missing.collect::<Vec<String>>());
        now.condition()
    }

    /// The condition, once the Secrets to generate exist.
    pub fn condition(&self) -> Condition {
        if self.missing.is_empty() {
            return Condition::new(TYPE, "True", "Available", String::new());
        }
        let lines: Vec<String> = self.missing.iter().map(|missing| format!("* {missing}")).collect();
        Condition::new(TYPE, "False", "NotAvailable", lines.join("\n"))
    }
}

/// What happens to the Secrets of a control plane. `found` contains every Secret that exists of
/// those that [`purposes`] names.
pub fn certificates(state: &State, found: &[FoundSecret]) -> Certificates {
    let mut result = Certificates::default();
    // Without its authority, a control plane that ran before has lost it (V287).
    let authority = Purpose::Cluster.secret(&state.cluster_name);
    let has_authority = found.iter().any(|secret| secret.name == authority);
    let ran = ran_before(state, found).filter(|_| !has_authority);
    let may_generate = may_generate(state) && ran.is_none();
    for purpose in purposes(state) {
        let name = purpose.secret(&state.cluster_name);
        let is_supplied = purpose.is_supplied(state.is_etcd_managed());
        match found.iter().find(|secret| secret.name == name) {
            Some(secret) => {
                if let Some(lack) = lack(purpose, secret, state.is_etcd_managed()) {
                    result.missing.push(lack);
                }
                if is_owned(state, secret) {
                    result.own.push(name);
                }
            }
            None if may_generate && !is_supplied => result.generate.push(generation(state, purpose, name)),
            None => result.missing.push(absence(state, &name, is_supplied, ran.as_deref())),
        }
    }
    result
}

/// The Secrets that a control plane needs.
pub fn purposes(state: &State) -> Vec<Purpose> {
    let mut purposes = vec![
        Purpose::Cluster,
        Purpose::Etcd,
        Purpose::ServiceAccount,
        Purpose::FrontProxy,
    ];
    if !state.is_etcd_managed() {
        purposes.push(Purpose::ApiServerEtcdClient);
    }
    purposes
}

/// Why the control plane may have run before. Then its cluster is read before a first machine is
/// created (V282). The status may be lost in a restore, so these signs count too: the status of the
/// Cluster, the record of a machine that existed, a worker that joined (V317), a configuration that
/// was used (V319), and a kubeconfig that a user, another control plane, or an earlier one of the
/// same name created (V287).
pub fn ran_before(state: &State, secrets: &[FoundSecret]) -> Option<String> {
    if state.is_initialized() {
        return Some(String::from("its status says that it was initialized"));
    }
    if state.cluster_is_initialized() {
        return Some(String::from("the status of its Cluster says that it was initialized"));
    }
    if let Some(machine) = state.annotation(LAST_CREATED) {
        return Some(format!("its annotation {LAST_CREATED} names machine {machine}"));
    }
    if let Some(worker) = &state.joined_worker {
        return Some(format!(
            "worker {worker} of its Cluster has joined, or has the data to join"
        ));
    }
    if let Some(config) = &state.used_config {
        return Some(format!(
            "a machine joined with KubeadmConfig {config}, or its API server served"
        ));
    }
    if let Some(name) = state.remains.first() {
        return Some(format!("its cluster has the Node or etcd member {name}"));
    }
    let name = format!("{}-kubeconfig", state.cluster_name);
    let is_own = |secret: &FoundSecret| {
        let controller = secret.controller.as_ref();
        controller.is_some_and(|owner| is_owner(&state.control_plane, owner))
    };
    let mut kubeconfigs = secrets.iter().filter(|secret| secret.name == name);
    let foreign = kubeconfigs.any(|secret| !is_own(secret));
    foreign.then(|| format!("Secret {name} was not issued for it"))
}

/// Whether no machine can have used a certificate yet.
fn may_generate(state: &State) -> bool {
    let others = [&state.foreign, &state.strayed];
    let has_others = others.iter().any(|machines| !machines.is_empty()) || !state.orphans.is_empty();
    let has_machine = has_others || !state.machines.is_empty() || !state.adoptable.is_empty();
    !state.is_initialized() && !has_machine && !state.is_deleting()
}

fn generation(state: &State, purpose: Purpose, secret: String) -> Generation {
    let configuration = &state.control_plane.spec.kubeadm_config_spec.cluster_configuration;
    let (days, algorithm) = (
        configuration.ca_certificate_validity_period_days,
        &configuration.encryption_algorithm,
    );
    Generation {
        purpose,
        secret,
        algorithm: if algorithm.is_empty() {
            DEFAULT_ALGORITHM.to_owned()
        } else {
            algorithm.clone()
        },
        days: if days > 0 { days } else { DEFAULT_DAYS },
    }
}

/// What a Secret lacks.
fn lack(purpose: Purpose, secret: &FoundSecret, etcd_is_managed: bool) -> Option<String> {
    // The key of an external etcd stays with its administrator.
    let needs_key = purpose != Purpose::Etcd || etcd_is_managed;
    let keys = match (secret.has_certificate, secret.has_key || !needs_key) {
        (true, true) => return None,
        (false, true) => "tls.crt",
        (true, false) => "tls.key",
        (false, false) => "tls.crt and tls.key",
    };
    Some(format!("Secret {} must contain {keys}", secret.name))
}

fn absence(state: &State, name: &str, is_supplied: bool, ran: Option<&str>) -> String {
    let advice = if is_supplied {
        "create it: it is needed for external etcd"
    } else if state.is_initialized() {
        "restore it: the control plane is initialized, so it is not generated again"
    } else if state.is_deleting() {
        "the control plane is being deleted, so it is not generated"
    } else if let Some(ran) = ran.filter(|_| may_generate(state)) {
        return format!(
            "Secret {name} must exist; restore it: the control plane may have run before, because {ran}, so the Secret \
             is not generated again. If it never ran, remove this sign"
        );
    } else {
        "restore it: there are machines, so it is not generated"
    };
    format!("Secret {name} must exist; {advice}")
}

/// Whether the controller of a Secret must be written. The Secrets of users stay as they are.
fn is_owned(state: &State, secret: &FoundSecret) -> bool {
    let metadata = &state.control_plane.metadata;
    match &secret.controller {
        Some(owner) if owner.uid == metadata.uid() => owner.api_version != API_VERSION,
        // Another control plane of the group is a conflict, which only a user can decide.
        Some(owner) if is_of_group(owner) => false,
        _ => secret.type_ == SECRET_TYPE,
    }
}

fn is_of_group(owner: &OwnerReference) -> bool {
    let group = owner.api_version.split('/').next();
    group == Some(GROUP) && owner.kind == kubeadm_control_plane::KIND
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kcp::samples::World;

    const NAMES: [&str; 4] = ["c-ca", "c-etcd", "c-sa", "c-proxy"];

    fn secret(name: &str) -> FoundSecret {
        FoundSecret {
            name: name.to_owned(),
            type_: SECRET_TYPE.to_owned(),
            has_certificate: true,
            has_key: true,
            controller: Some(owner("cp-uid", API_VERSION)),
        }
    }

    fn owner(uid: &str, api_version: &str) -> OwnerReference {
        OwnerReference {
            api_version: api_version.to_owned(),
            kind: String::from("KubeadmControlPlane"),
            name: String::from("cp"),
            uid: uid.to_owned(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        }
    }

    fn generated(certificates: &Certificates) -> Vec<&str> {
        certificates.generate.iter().map(|one| one.secret.as_str()).collect()
    }

    #[test]
    fn a_kubeconfig_is_renewed_when_half_a_year_is_left() {
        let now: Timestamp = "2026-06-01T12:00:00Z".parse().unwrap();
        let is_renewed = |days: i64| is_renewed(now + SignedDuration::from_hours(24 * days), now);
        assert!(!is_renewed(365) && !is_renewed(183));
        assert!(is_renewed(182) && is_renewed(0) && is_renewed(-1));
    }

    #[test]
    fn certificates_are_generated_before_the_first_machine() {
        let state = World::new("").state();
        let result = certificates(&state, &[]);
        assert_eq!(generated(&result), NAMES);
        assert_eq!(
            (result.generate[0].algorithm.as_str(), result.generate[0].days),
            ("RSA-2048", 3650)
        );
        assert_eq!(result.condition().status, "True");
        assert_eq!(result.condition_now().status, "False");
        // A crash between two creations leaves some of them.
        let result = certificates(&state, &[secret("c-ca"), secret("c-sa")]);
        assert_eq!(generated(&result), ["c-etcd", "c-proxy"]);
        let all = NAMES.map(secret);
        assert_eq!(certificates(&state, &all), Certificates::default());
    }

    #[test]
    fn certificates_have_the_algorithm_and_the_validity_of_the_control_plane() {
        let mut world = World::new("");
        let configuration = &mut world.spec()["kubeadmConfigSpec"]["clusterConfiguration"];
        configuration["encryptionAlgorithm"] = json!("ECDSA-P256");
        configuration["caCertificateValidityPeriodDays"] = json!(100);
        let result = certificates(&world.state(), &[]);
        assert_eq!(
            (result.generate[0].algorithm.as_str(), result.generate[0].days),
            ("ECDSA-P256", 100)
        );
    }

    #[test]
    fn certificates_are_never_generated_again_once_initialized() {
        let mut world = World::new("");
        world.control_plane["status"]["initialization"] = json!({"controlPlaneInitialized": true});
        let result = certificates(
            &world.state(),
            &NAMES[1..].iter().map(|name| secret(name)).collect::<Vec<_>>(),
        );
        assert_eq!(generated(&result), [""; 0]);
        let condition = result.condition();
        assert_eq!((condition.status, condition.reason), ("False", "NotAvailable"));
        assert!(
            condition.message.contains("Secret c-ca must exist; restore it"),
            "{}",
            condition.message
        );
    }

    #[test]
    fn certificates_are_not_generated_while_a_machine_exists_although_the_status_is_lost() {
        let mut world = World::new("a");
        world.control_plane["status"] = json!({});
        assert!(!world.state().is_initialized());
        assert_eq!(generated(&certificates(&world.state(), &[])), [""; 0]);
        // The machine lost its controller too, as in a restore of single objects.
        world.machines[0]["metadata"]["ownerReferences"] = json!([]);
        let result = certificates(&world.state(), &[]);
        assert_eq!(generated(&result), [""; 0]);
        assert_eq!(result.missing.len(), 4);
    }

    #[test]
    fn v283_certificates_are_not_generated_while_a_machine_without_its_label_exists() {
        let mut world = World::new("a");
        world.control_plane["status"] = json!({});
        let labels = world.machines[0]["metadata"]["labels"].as_object_mut().unwrap();
        labels.remove("cluster.x-k8s.io/control-plane");
        assert_eq!(generated(&certificates(&world.state(), &[])), [""; 0]);
        world.machines[0]["metadata"]["ownerReferences"] = json!([]);
        assert_eq!(generated(&certificates(&world.state(), &[])), [""; 0]);
        world.machines.clear();
        assert_eq!(generated(&certificates(&world.state(), &[])), [""; 0], "it has Nodes");
        world.others.clear();
        world.etcd = None;
        assert_eq!(generated(&certificates(&world.state(), &[])).len(), 4);
    }

    #[test]
    fn an_incomplete_secret_is_reported_and_not_generated() {
        let empty = FoundSecret {
            has_certificate: false,
            ..secret("c-ca")
        };
        let found = [empty, secret("c-etcd"), secret("c-sa"), secret("c-proxy")];
        let result = certificates(&World::new("").state(), &found);
        assert_eq!(generated(&result), [""; 0]);
        assert_eq!(result.missing, ["Secret c-ca must contain tls.crt"]);
    }

    #[test]
    fn a_user_supplies_the_certificates_of_external_etcd() {
        let state = World::new("").external().state();
        let result = certificates(&state, &[]);
        assert_eq!(generated(&result), ["c-ca", "c-sa", "c-proxy"]);
        assert_eq!(result.missing.len(), 2);
        assert!(result.missing[1].starts_with("Secret c-apiserver-etcd-client must exist; create it"));
        // The key of the authority of etcd is not needed.
        let without_key = FoundSecret {
            has_key: false,
            ..secret("c-etcd")
        };
        let result = certificates(&state, &[without_key, secret("c-apiserver-etcd-client")]);
        assert_eq!(result.missing, [""; 0]);
    }

    #[test]
    fn the_controller_of_generated_secrets_is_the_control_plane_and_those_of_users_stay() {
        let state = World::new("").state();
        let owned = |change: fn(&mut FoundSecret)| {
            let mut found = NAMES.map(secret);
            change(&mut found[0]);
            certificates(&state, &found).own
        };
        assert_eq!(owned(|_| {}), [""; 0]);
        assert_eq!(owned(|ca| ca.controller = None), ["c-ca"]);
        assert_eq!(
            owned(|ca| ca.controller = Some(owner("cp-uid", "controlplane.cluster.x-k8s.io/v1beta1"))),
            ["c-ca"]
        );
        assert_eq!(
            owned(|ca| {
                ca.controller = Some(owner("config-uid", "bootstrap.cluster.x-k8s.io/v1beta2"));
            }),
            ["c-ca"]
        );
        assert_eq!(
            owned(|ca| ca.controller = Some(owner("other-uid", API_VERSION))),
            [""; 0]
        );
        assert_eq!(
            owned(|ca| {
                ca.controller = None;
                ca.type_ = String::from("Opaque");
            }),
            [""; 0]
        );
    }
}
