//! What an accepted edit does to the machines that run. The result is a warning, and never a
//! refusal.

use super::table::PLAN;
use crate::api::cluster_x_k8s_io::machine_pool::MachinePool;
use crate::model::{Degradation, Warning};
use crate::pool::strategy::{ROLLOUT, Rollout, strategy};

/// A strategy that replaces nothing.
const NOTHING: Rollout = Rollout::Rolling {
    max_unavailable: 0,
    max_surge: Some(0),
};

/// Warns of an update that replaces or removes machines.
pub(super) fn update(old: &MachinePool, new: &MachinePool) -> Vec<Warning> {
    let wanted = i64::from(new.spec.replicas.unwrap_or(1));
    let (before, after) = (&old.spec.template.spec, &new.spec.template.spec);
    let mut warnings: Vec<Warning> = scale(old, wanted).into_iter().collect();
    if !after.version.is_empty() && before.version != after.version {
        let text = format!(
            "this update replaces all machines, for {}: {}",
            after.version,
            order(new)
        );
        warnings.push(Warning::new(PLAN.id, text));
    }
    if before.infrastructure_ref != after.infrastructure_ref {
        let text = "this update gives the pool other infrastructure: its provider deletes the present instances only \
                    with their own infrastructure object";
        warnings.push(Warning::new(PLAN.id, text));
    }
    warnings
}

/// Warns of a new strategy that replaces nothing.
pub(super) fn strategy_of(old: Option<&MachinePool>, new: &MachinePool) -> Option<Warning> {
    let given = |pool: &MachinePool| pool.metadata.annotations.get(ROLLOUT).cloned();
    let is_new = old.is_none_or(|old| given(old) != given(new));
    let replaces_nothing = replicas(new) > 0 && matches!(rollout(new), Ok(NOTHING));
    let text = "maxUnavailable and maxSurge of the annotation capstan.dev/rollout are 0, so that nothing replaces an \
                outdated machine: increase one";
    (is_new && replaces_nothing).then(|| Warning::new(PLAN.id, text))
}

/// Warns of fewer replicas.
pub(super) fn scale(old: &MachinePool, wanted: i64) -> Option<Warning> {
    let current = i64::from(old.spec.replicas.unwrap_or(1));
    let text = format!(
        "this update removes {} of {current} machine(s), after their Nodes are drained: those with the annotation \
         cluster.x-k8s.io/delete-machine first, then outdated, unhealthy, and old ones",
        current - wanted
    );
    (wanted < current).then(|| Warning::new(PLAN.id, text))
}

/// Says what a deletion removes.
pub(super) fn deletion(old: &MachinePool) -> Option<Warning> {
    let machines = old.spec.replicas.unwrap_or(1);
    let text = format!(
        "this deletion removes the pool with its {machines} machine(s): the instances, the Machines, and the Nodes in \
         Cluster {:?}",
        old.spec.cluster_name
    );
    (machines > 0 && !old.metadata.is_deleting()).then(|| Warning::new(PLAN.id, text))
}

/// How outdated machines are replaced.
fn order(pool: &MachinePool) -> String {
    match rollout(pool) {
        Ok(NOTHING) => String::from("none, because maxUnavailable and maxSurge are 0"),
        Ok(Rollout::Rolling { max_unavailable: 0, .. }) => {
            String::from("one after the other, after the provider created another instance")
        }
        Ok(Rollout::Rolling { max_unavailable, .. }) => {
            format!("at most {max_unavailable} of {} may be unavailable", replicas(pool))
        }
        Ok(Rollout::OnDelete) => String::from("each after a user deleted its Machine"),
        Ok(Rollout::Provider) => {
            String::from("the provider decides how, because the annotation capstan.dev/rollout is not set")
        }
        Err(_) => String::from("none before the strategy can be read"),
    }
}

fn replicas(pool: &MachinePool) -> usize {
    usize::try_from(pool.spec.replicas.unwrap_or(1)).unwrap_or(0)
}

fn rollout(pool: &MachinePool) -> Result<Rollout, Degradation> {
    strategy(&pool.metadata.annotations, replicas(pool)).map(|strategy| strategy.rollout)
}
