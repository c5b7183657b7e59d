//! Plans of a ControlPlane from its objects, for `capstan plan`.
//!
//! Nothing here decides: `capstan_core::control_plane` does.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use anyhow::bail;
use capstan_core::admission::{Options, Snapshot};
use capstan_core::api::config_openshift_io::cluster_operator::ETCD;
use capstan_core::api::core_v1::config_map::{self, ConfigMap, ETCD_ENDPOINTS, ETCD_NAMESPACE};
use capstan_core::api::machine_openshift_io::control_plane::{ControlPlane, NAME};
use capstan_core::api::machine_openshift_io::control_plane_machine_set::ControlPlaneMachineSet;
use capstan_core::api::machine_openshift_io::label;
use capstan_core::api::machine_openshift_io::machine::Machine;
use capstan_core::control_plane::action::Plan;
use capstan_core::control_plane::plan::plan as next_steps;
use capstan_core::control_plane::preview::{Preview, preview};
use capstan_core::control_plane::report::{invalid_report, report};
use capstan_core::control_plane::spec::parse;
use capstan_core::control_plane::state::State;
use capstan_core::control_plane::{degraded, members, removal};
use capstan_core::cpms::etcd::voters;
use capstan_core::cpms::observed::Observed;
use capstan_core::cpms::spec::ParseContext;
use serde::Deserialize as _;
use serde_json::Value;

use super::documents::{Document, note, rank};

/// The addresses of the etcd members that vote, if the objects contain their list.
pub(super) fn listed_voters(documents: &[Document]) -> Option<BTreeSet<IpAddr>> {
    let list = (config_map::KIND, ETCD_NAMESPACE, ETCD_ENDPOINTS);
    let found = documents.iter().find(|document| document.key() == list)?;
    Some(voters(&ConfigMap::deserialize(&found.object).ok()?))
}

/// The report of `capstan plan`. `voters`: the addresses of the etcd members that vote, if their
/// list is known.
///
/// # Errors
/// The files contain no ControlPlane, or nothing that names the cluster.
pub(super) fn plan(snapshot: &Snapshot, voters: Option<BTreeSet<IpAddr>>, options: &Options) -> anyhow::Result<Value> {
    let known = snapshot.control_planes.as_deref().unwrap_or_default();
    let order = |object: &&Arc<ControlPlane>| rank(&object.metadata, NAME, &options.namespace);
    let Some(object) = known.iter().min_by_key(order) else {
        bail!("there must be a ControlPlane");
    };
    if known.len() > 1 {
        let home = object.metadata.namespace.as_deref().unwrap_or(&options.namespace);
        note(&format!(
            "there are {} ControlPlanes; only {} in {home} is planned",
            known.len(),
            object.metadata.name()
        ));
    }
    note_namespace(object, options);
    let home = object.metadata.namespace.as_deref().unwrap_or(&options.namespace);
    let machines = machines_in(home, snapshot);
    let labelled = machines
        .iter()
        .find_map(|machine| machine.metadata.labels.get(label::CLUSTER));
    let infrastructure = snapshot.infrastructure.as_deref();
    let named = infrastructure.map(|found| found.status.infrastructure_name.as_str());
    let cluster = named.filter(|name| !name.is_empty()).or(labelled.map(String::as_str));
    let Some(cluster) = cluster.filter(|name| !name.is_empty()) else {
        bail!(
            "the names of the machines start with the name of the cluster, and no object has it; give the Infrastructure \
             too, or a Machine with the label {}",
            label::CLUSTER
        );
    };
    let context = ParseContext {
        infrastructure,
        gates: options.gates(snapshot.feature_gate.as_deref()),
        ignore_gated_fields: true,
    };
    let spec = match parse(object, cluster, &context) {
        Ok(spec) => spec,
        Err(violations) => return Ok(invalid_report(object.metadata.name(), &violations)),
    };
    let operators = snapshot.cluster_operators.as_ref();
    let own_members = members::assumed(&machines, object);
    let observed = Observed {
        machines,
        own_members,
        nodes: snapshot.nodes.clone().unwrap_or_default().into_values().collect(),
        infrastructure: snapshot.infrastructure.clone(),
        voters,
        etcd: operators.and_then(|operators| operators.get(ETCD)).cloned(),
        ..Observed::default()
    };
    let leaving = object.metadata.is_deleting().then(|| removal::leave(object, &observed));
    let state = State::observe(&spec, observed);
    // The controller does nothing else in these two cases (V93).
    if let Some(next) = leaving.or_else(|| beside_active_set(home, snapshot)) {
        return Ok(report(&spec, &state, &next, &Preview::default()));
    }
    let next = next_steps(&spec, &state);
    Ok(report(&spec, &state, &next, &preview(&spec, &state)))
}

/// The Machines in the namespace of their owner. The controller reads no others.
pub(super) fn machines_in(home: &str, snapshot: &Snapshot) -> Vec<Arc<Machine>> {
    let is_here = |machine: &Arc<Machine>| {
        let own = machine.metadata.namespace.as_deref();
        own.is_none_or(|own| own.is_empty() || own == home)
    };
    let all = snapshot.machines.iter().flatten().cloned();
    let (here, elsewhere): (Vec<_>, Vec<_>) = all.partition(is_here);
    if let Some(machine) = elsewhere.first() {
        note(&format!(
            "{} Machine(s), such as {}, are not in the namespace {home} and are left out",
            elsewhere.len(),
            machine.metadata.name()
        ));
    }
    here
}

/// The plan of a ControlPlane beside a set that is Active: nothing, until a user acts.
fn beside_active_set(home: &str, snapshot: &Snapshot) -> Option<Plan> {
    let is_here = |set: &&Arc<ControlPlaneMachineSet>| set.metadata.namespace.as_deref().is_none_or(|own| own == home);
    let sets = snapshot.control_plane_machine_sets.iter().flatten().filter(is_here);
    let reason = degraded::beside_active_set(sets.map(|set| &**set))?;
    Some(Plan {
        degraded: vec![reason],
        ..Plan::default()
    })
}

/// Notes that the controller does not see a ControlPlane of another namespace.
fn note_namespace(object: &ControlPlane, options: &Options) {
    let other = object.metadata.namespace.as_deref();
    if let Some(other) = other.filter(|other| !other.is_empty() && *other != options.namespace) {
        note(&format!(
            "the ControlPlane is in the namespace {other}; admission refuses it there, and the controller manages only \
             that of {}",
            options.namespace
        ));
    }
}
