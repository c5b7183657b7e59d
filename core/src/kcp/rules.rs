//! The rules for edits of a KubeadmControlPlane and of a KubeadmControlPlaneTemplate.
//!
//! The rules are those of Cluster API's webhooks. They differ where `docs/kubeadm-control-plane.md`
//! lists it: a downgrade is refused, and a field path names the real field. An update of an object
//! that is being deleted passes if it leaves the spec as it is, so that finalizers can be removed.

mod advice;
mod changes;
mod cluster_configuration;
mod kubeadm_config;
mod machine_template;
mod rollout;
mod scale;
mod table;
mod template;
mod upgrade;

use json_patch::Patch;
use serde_json::Value;

use super::conversion::{FALLBACK_VERSION, Versions, unknown_version};
use super::defaults;
use super::spec::{Gates, TYPE_RULE, read_for_rules};
use crate::api::controlplane_cluster_x_k8s_io::kubeadm_control_plane::{KubeadmControlPlane, Spec};
use crate::model::{Edit, FieldPath, Operation, RuleInfo, Stored, Verdict, Violation, ViolationKind, Warning};

/// The path of the spec of a control plane.
const SPEC: &str = "spec";

/// The mutating pass for a KubeadmControlPlane: fills in defaults.
pub fn mutate(edit: &Edit<'_>) -> (Verdict, Option<Patch>) {
    let object = edit.object.filter(|_| edit.subresource.is_empty());
    (Verdict::default(), object.map(defaults::patch))
}

/// The validating pass for a KubeadmControlPlane. `scaled`: the stored object that a Scale is
/// about, if it is known.
pub fn validate(edit: &Edit<'_>, scaled: Option<&Value>, gates: Gates) -> Verdict {
    let mut verdict = Verdict::default();
    let old = edit.old.map(Stored::whole);
    match (edit.object, edit.subresource) {
        (Some(object), "scale") => {
            let scaled = scaled.or(old.as_deref());
            scale::judge(object, scaled, &mut verdict.violations);
            if let (true, Some(old)) = (verdict.allowed(), scaled) {
                let wanted = object.pointer("/spec/replicas").and_then(Value::as_i64);
                let wanted = wanted.unwrap_or(0);
                verdict.warnings.extend(advice::scaled_to_fewer(old, wanted));
                verdict.warnings.extend(advice::scaled_below_strategy(old, wanted));
            }
        }
        (Some(object), "") => {
            judge(object, old.as_deref(), gates, &mut verdict.violations);
            let stored = old.as_deref().map(read_for_rules::<KubeadmControlPlane>);
            // No API server stores such an object.
            if let Some(Err(problem)) = &stored {
                let text = format!("not checked: what changes, because the stored object cannot be read: {problem}");
                verdict.warn(Warning::not_judged(TYPE_RULE, text));
            }
            let stored: Option<KubeadmControlPlane> = stored.and_then(Result::ok);
            let new: Option<KubeadmControlPlane> = read_for_rules(object).ok();
            if let (true, Some(old), Some(new)) = (verdict.allowed(), stored, new) {
                verdict.warnings.extend(advice::rollout(&old, &new));
                let wanted = new.spec.replicas.map_or(1, i64::from);
                verdict.warnings.extend(advice::fewer_machines(&old.spec, wanted));
            }
        }
        _ => {}
    }
    verdict.finish()
}

/// A warning about an edit that makes a control plane refer to infrastructure without a known
/// version. Readers of `v1beta1` get a version that may not exist.
pub fn unknown_infrastructure(edit: &Edit<'_>, versions: Versions<'_>) -> Option<Warning> {
    let object = edit.object.filter(|_| edit.subresource.is_empty())?;
    let (group, kind) = unknown_version(object, versions)?;
    let old = edit.old.map(Stored::whole);
    let same = |old: &Value| unknown_version(old, versions) == Some((group, kind));
    if old.as_deref().is_some_and(same) {
        return None;
    }
    let text = format!(
        "no CRD names the version of {kind}.{group}, so readers of v1beta1 get {FALLBACK_VERSION}; install the CRD of \
         the provider, with its label cluster.x-k8s.io/v1beta2"
    );
    Some(Warning::new(table::INFRASTRUCTURE_VERSION.id(), text))
}

/// The validating pass for a KubeadmControlPlaneTemplate.
pub fn validate_template(edit: &Edit<'_>, gates: Gates) -> Verdict {
    let mut verdict = Verdict::default();
    if let (Some(object), "") = (edit.object, edit.subresource) {
        let old = edit.old.map(Stored::whole);
        template::judge(object, old.as_deref(), gates, &mut verdict.violations);
    }
    verdict.finish()
}

/// The rules, as `capstan rules` lists them.
pub fn table() -> Vec<RuleInfo> {
    table::ALL.iter().map(table::Rule::info).collect()
}

fn judge(object: &Value, old: Option<&Value>, gates: Gates, found: &mut Vec<Violation>) {
    let new: KubeadmControlPlane = match read_for_rules(object) {
        Ok(new) => new,
        Err(violation) => return found.push(*violation),
    };
    // The mutating pass adds defaults to an object that was stored without them (V234).
    let with_defaults = old.map(defaults::defaulted);
    let with_defaults: Option<KubeadmControlPlane> = with_defaults.and_then(|old| read_for_rules(&old).ok());
    // An old object that cannot be read gives nothing to compare with.
    let old: Option<KubeadmControlPlane> = old.and_then(|old| read_for_rules(old).ok());
    let is_deleted = object
        .pointer("/metadata/deletionTimestamp")
        .is_some_and(Value::is_string);
    let is_same = |old: &Option<KubeadmControlPlane>| old.as_ref().is_some_and(|old| old.spec == new.spec);
    if is_deleted && (is_same(&old) || is_same(&with_defaults)) {
        return;
    }
    replicas(&new.spec, found);
    version(&new.spec.version, found);
    Judge {
        spec: &new.spec,
        at: FieldPath::from(SPEC),
        gates,
        found,
    }
    .common();
    machine_template::infrastructure(&new.spec, found);
    if let Some(old) = &old {
        changes::judge(&old.spec, &new.spec, found);
        upgrade::judge(old, &new, found);
        cluster_configuration::same_etcd(&old.spec, &new.spec, found);
    }
}

/// The spec of a control plane or of a template, and what its rules need.
struct Judge<'a> {
    spec: &'a Spec,
    /// The path of the spec.
    at: FieldPath,
    gates: Gates,
    found: &'a mut Vec<Violation>,
}

impl Judge<'_> {
    /// The rules that apply to control planes and to templates.
    fn common(&mut self) {
        self.rollout();
        self.certificates();
        self.naming();
        self.taints();
        self.template_metadata();
        self.images();
        self.etcd();
        self.kubeadm_config();
    }

    /// The path of a field below the spec, such as `rollout.strategy`.
    fn path(&self, below: &str) -> FieldPath {
        self.at.child(below)
    }

    /// The path of a field of the kubeadm configuration.
    fn kubeadm(&self, below: &str) -> FieldPath {
        self.path("kubeadmConfigSpec").child(below)
    }
}

/// The number of machines: positive, and odd unless etcd is external.
fn replicas(spec: &Spec, found: &mut Vec<Violation>) {
    let Some(replicas) = spec.replicas else {
        let required = table::REPLICAS_REQUIRED.violation("spec.replicas", ViolationKind::Required);
        return found.push(required.advice("set 1, 3 or 5"));
    };
    let external = spec.kubeadm_config_spec.cluster_configuration.has_external_etcd();
    found.extend(scale::replicas(i64::from(replicas), external));
}

/// The version of Kubernetes: `v` and three numbers.
fn version(version: &str, found: &mut Vec<Violation>) {
    let is_valid = version
        .strip_prefix('v')
        .is_some_and(|version| super::version::Version::strict(version).is_some());
    if !is_valid {
        let invalid = table::VERSION.violation("spec.version", ViolationKind::Invalid);
        found.push(
            invalid
                .got(&Value::from(version))
                .advice("set a version such as v1.33.1"),
        );
    }
}

/// Both operations that write an object.
const WRITES: &[Operation] = &[Operation::Create, Operation::Update];

#[cfg(test)]
mod tests;
