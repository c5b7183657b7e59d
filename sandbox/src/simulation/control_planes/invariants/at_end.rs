//! The checks of the end: no fault is left, and users have followed the advice of the controller.

use std::collections::BTreeSet;

use capstan_core::cpms::selector::is_control_plane;
use serde_json::Value;

use super::moment::Moment;
use crate::simulation::control_planes::state::Plane;
use crate::simulation::engine::world::World;

type Found = Option<(&'static str, String)>;

impl World<Plane> {
    /// A move may be repeated after the spread was even.
    pub(in crate::simulation::control_planes) fn forget_moves(&mut self) {
        if !self.environment.evidence.moves.is_empty() && self.environment.moment(self.now()).is_even() {
            self.environment.evidence.moves.clear();
        }
    }
}

/// The first check that fails.
pub(in crate::simulation::control_planes) fn violation(world: &World<Plane>) -> Found {
    let plane = &world.environment;
    let now = plane.moment(world.now());
    instances(plane).or_else(|| {
        let object = plane.object.as_ref()?;
        let number = |field: Option<i32>| field.and_then(|number| usize::try_from(number).ok()).unwrap_or(0);
        let replicas = now.replicas();
        if now.count() != replicas {
            return Some((
                "H11",
                format!("{} machines stand, and {replicas} are wanted", now.count()),
            ));
        }
        let status = object.status.as_ref();
        let condition = |type_: &str| {
            let conditions = status.map(|status| &status.conditions).into_iter().flatten();
            let mut found = conditions.filter(|condition| condition.type_ == type_);
            found
                .next()
                .map(|condition| condition.status.clone())
                .unwrap_or_default()
        };
        for (type_, wanted) in [
            ("Available", "True"),
            ("Degraded", "False"),
            ("Progressing", "False"),
            ("Error", "False"),
        ] {
            let is = condition(type_);
            if is != wanted {
                let conditions = status.map(|status| &status.conditions);
                return Some(("ESR", format!("{type_} is {is} at the end: {conditions:?}")));
            }
        }
        if let Some(machine) = now
            .standing()
            .find(|machine| !now.is_current(machine) || !now.is_ready(machine))
        {
            let name = machine.metadata.name();
            return Some(("ESR", format!("machine {name} is outdated or not ready at the end")));
        }
        let counts = status.map(|status| [status.replicas, status.updated_replicas, status.ready_replicas]);
        if counts.is_none_or(|counts| counts.into_iter().any(|count| number(count) != replicas)) {
            return Some((
                "ESR",
                format!("the status counts {counts:?}, and there are {replicas} machines"),
            ));
        }
        let observed = status.and_then(|status| status.observed_generation);
        if observed != object.metadata.generation {
            return Some(("ESR", format!("the status is about generation {observed:?}")));
        }
        health_check(plane, &now).or_else(|| {
            let may_move = replicas > 1 || now.is_acknowledged();
            (may_move && !now.is_even()).then(|| {
                (
                    "H11",
                    String::from("the machines are not spread evenly over the failure domains"),
                )
            })
        })
    })
}

/// H12: machines, instances, and voting members belong together.
fn instances(plane: &Plane) -> Found {
    let uids: BTreeSet<&str> = plane.machines.values().map(|machine| machine.metadata.uid()).collect();
    let mut running = plane.provider.instances.iter();
    if let Some(uid) = running.find(|uid| !uids.contains(uid.as_str())) {
        return Some(("H12", format!("instance {uid} runs, and has no machine")));
    }
    let controlled = plane.machines.iter();
    let controlled = controlled.filter(|(_, machine)| is_control_plane(&machine.metadata.labels));
    let names: BTreeSet<&String> = controlled.map(|(name, _)| name).collect();
    let voters: BTreeSet<&String> = plane.etcd.members.voters.iter().collect();
    (names != voters).then(|| {
        (
            "H12",
            format!("the machines are {names:?}, and the voting members {voters:?}"),
        )
    })
}

fn health_check(plane: &Plane, now: &Moment) -> Found {
    let object = plane.object.as_ref()?;
    let repairs = object.spec.enable_autorepair.unwrap_or(true);
    let most = plane
        .health_check
        .as_ref()
        .map(|check| check.spec.max_unhealthy.clone());
    let wanted = repairs.then(|| Some(Value::from(now.most_unhealthy())));
    (most != wanted).then(|| {
        (
            "H9",
            format!("maxUnhealthy is {most:?} at the end, and must be {wanted:?}"),
        )
    })
}
