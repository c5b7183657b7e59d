//! What an update does to the machines that run. The result is a warning, and never a refusal.

use serde_json::Value;

use super::rollout::LEAST_FOR_SCALE_IN;
use super::scale::is_scale;
use super::table::{FEWER_MACHINES, ROLLOUT, SCALE_IN};
use crate::api::controlplane_cluster_x_k8s_io::kubeadm_control_plane::{IntOrString, KubeadmControlPlane, Spec};
use crate::kcp::outdated::{changes_between, summary};
use crate::kcp::spec::read_for_rules;
use crate::model::Warning;

/// Warns of an update that replaces machines.
pub(super) fn rollout(old: &KubeadmControlPlane, new: &KubeadmControlPlane) -> Option<Warning> {
    let changes = changes_between(&old.spec, &new.spec);
    if changes.is_empty() {
        return rollout_after(&old.spec, &new.spec);
    }
    // Machines that the new number does not need are deleted first, and have no replacement.
    let count = |spec: &Spec| spec.replicas.unwrap_or(1);
    let machines = match count(&old.spec).min(count(&new.spec)) {
        1 if count(&old.spec) > 1 => String::from("the machine that stays"),
        1 => String::from("the machine"),
        number if number < count(&old.spec) => format!("the {number} machines that stay, one after the other"),
        count => format!("all {count} machines, one after the other"),
    };
    let text = format!(
        "this update replaces {machines}; {}; changed: {}",
        order(&new.spec),
        summary(&changes)
    );
    Some(Warning::new(ROLLOUT.id(), text))
}

/// Warns of a new time before which all machines are outdated. Admission has no clock, so that the
/// time may be in the future.
fn rollout_after(old: &Spec, new: &Spec) -> Option<Warning> {
    let after = new.rollout.after.filter(|after| old.rollout.after != Some(*after))?;
    let text = format!(
        "from {after} on, this update replaces the machines that were created before that time; {}",
        order(new)
    );
    Some(Warning::new(ROLLOUT.id(), text))
}

/// Warns of a smaller number of machines than `old` has. A manifest without the number asks for one
/// machine, which is its default.
pub(super) fn fewer_machines(old: &Spec, after: i64) -> Option<Warning> {
    let before = i64::from(old.replicas.unwrap_or(1));
    let has_local_etcd = !old.kubeadm_config_spec.cluster_configuration.has_external_etcd();
    fewer(before, after, has_local_etcd)
}

/// As [`fewer_machines`], for a Scale. `old` is the control plane, or else the Scale before the
/// edit.
pub(super) fn scaled_to_fewer(old: &Value, after: i64) -> Option<Warning> {
    if is_scale(old) {
        let before = old.pointer("/spec/replicas").and_then(Value::as_i64)?;
        return fewer(before, after, false);
    }
    let stored: KubeadmControlPlane = read_for_rules(old).ok()?;
    fewer_machines(&stored.spec, after)
}

/// Warns of a Scale after which every edit of the control plane is refused. The rules for a Scale
/// are those of Cluster API, which do not read the strategy.
pub(super) fn scaled_below_strategy(scaled: &Value, after: i64) -> Option<Warning> {
    let stored: KubeadmControlPlane = read_for_rules(scaled).ok().filter(|_| !is_scale(scaled))?;
    let surge = stored.spec.rollout.strategy.rolling_update.max_surge.as_ref()?;
    let is_refused = surge.number() == Some(0) && (1..i64::from(LEAST_FOR_SCALE_IN)).contains(&after);
    is_refused.then(|| {
        let text = format!(
            "with maxSurge 0 and {after} machine(s), every later edit of this object is refused ({}); set \
             spec.rollout.strategy.rollingUpdate.maxSurge to 1",
            SCALE_IN.id()
        );
        Warning::new(FEWER_MACHINES.id(), text)
    })
}

fn fewer(before: i64, after: i64, has_local_etcd: bool) -> Option<Warning> {
    if after < 1 || after >= before {
        return None;
    }
    let to = match after {
        1 => String::from("1, which is also the default of a manifest without it"),
        after => after.to_string(),
    };
    let one_left = match after {
        1 if has_local_etcd => ", and etcd with one member tolerates no failure",
        1 => ", and one machine tolerates no failure",
        _ => "",
    };
    let text = format!(
        "spec.replicas changes from {before} to {to}: {} of {before} machines are deleted, one after the other{one_left}",
        before - after
    );
    Some(Warning::new(FEWER_MACHINES.id(), text))
}

/// The order of a creation and a deletion.
fn order(spec: &Spec) -> &'static str {
    let surge = spec.rollout.strategy.rolling_update.max_surge.as_ref();
    if surge.and_then(IntOrString::number) == Some(0) {
        "a machine is deleted before its replacement is created"
    } else {
        "a replacement is created before a machine is deleted"
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::validate;
    use crate::kcp::spec::Gates;
    use crate::model::{Edit, Operation, Stored, User};

    fn warnings(old: &Value, new: &Value, subresource: &str) -> Vec<String> {
        let edit = Edit {
            operation: Operation::Update,
            subresource,
            namespace: "ns",
            name: "cp",
            object: Some(new),
            old: Some(old as &dyn Stored),
            propagation: None,
            user: &User::default(),
            dry_run: true,
        };
        let verdict = validate(&edit, None, Gates::default());
        assert!(verdict.allowed(), "{:?}", verdict.violations);
        verdict.warnings.into_iter().map(|warning| warning.text).collect()
    }

    fn of(replicas: i64) -> Value {
        json!({
            "apiVersion": "controlplane.cluster.x-k8s.io/v1beta2",
            "kind": "KubeadmControlPlane",
            "metadata": {"name": "cp", "namespace": "ns"},
            "spec": {
                "replicas": replicas,
                "version": "v1.33.1",
                "machineTemplate": {"spec": {"infrastructureRef": {"apiGroup": "example.org", "kind": "T", "name": "t"}}},
            },
        })
    }

    /// An API server sends the Scale before the edit in the place of the object.
    #[test]
    fn w129_fewer_machines_are_warned_of_also_in_a_scale_of_the_api_server() {
        let scale =
            |replicas: i64| json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "spec": {"replicas": replicas}});
        assert_eq!(
            warnings(&scale(5), &scale(3), "scale"),
            ["spec.replicas changes from 5 to 3: 2 of 5 machines are deleted, one after the other"]
        );
        assert!(warnings(&scale(3), &scale(1), "scale")[0].ends_with("and one machine tolerates no failure"));
        assert!(warnings(&scale(1), &scale(3), "scale").is_empty());
    }

    /// Machines that the new number does not need are deleted before the others are replaced.
    #[test]
    fn w140_an_update_to_fewer_machines_replaces_only_those_that_stay() {
        for (after, expected) in [
            (
                1,
                "this update replaces the machine that stays; a replacement is created before",
            ),
            (3, "this update replaces the 3 machines that stay, one after the other"),
            (5, "this update replaces all 5 machines, one after the other"),
            (7, "this update replaces all 5 machines, one after the other"),
        ] {
            let mut new = of(after);
            new["spec"]["version"] = json!("v1.34.0");
            let warnings = warnings(&of(5), &new, "");
            assert!(warnings.iter().any(|text| text.starts_with(expected)), "{warnings:?}");
        }
    }

    #[test]
    fn w168_the_order_of_a_replacement_is_not_cut_off() {
        let mut new = of(3);
        let name = "n".repeat(200);
        new["spec"]["machineTemplate"]["spec"]["infrastructureRef"]["name"] = json!(name);
        new["spec"]["version"] = json!("v1.34.0");
        new["spec"]["kubeadmConfigSpec"] = json!({"files": [{"path": "/etc/a"}], "preKubeadmCommands": ["a"]});
        for (surge, order) in [
            (0, "a machine is deleted before its replacement is created"),
            (1, "a replacement is created before a machine is deleted"),
        ] {
            new["spec"]["rollout"] =
                json!({"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge}}});
            let warnings = warnings(&of(3), &new, "");
            assert!(
                warnings[0].contains(order) && warnings[0].ends_with('…'),
                "{warnings:?}"
            );
        }
    }

    #[test]
    fn w118_fewer_machines_are_warned_of() {
        let scale =
            |replicas: i64| json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "spec": {"replicas": replicas}});
        for (before, after, expected) in [
            (
                3,
                1,
                "spec.replicas changes from 3 to 1, which is also the default of a manifest without it: 2 of 3 machines \
                 are deleted, one after the other, and etcd with one member tolerates no failure",
            ),
            (
                5,
                3,
                "spec.replicas changes from 5 to 3: 2 of 5 machines are deleted, one after the other",
            ),
        ] {
            assert_eq!(warnings(&of(before), &of(after), ""), [expected]);
            assert_eq!(warnings(&of(before), &scale(after), "scale"), [expected]);
        }
        for (before, after) in [(3, 3), (1, 3)] {
            assert!(warnings(&of(before), &of(after), "").is_empty());
            assert!(warnings(&of(before), &scale(after), "scale").is_empty());
        }
    }
}
