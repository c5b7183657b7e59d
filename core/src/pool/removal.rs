//! The deletion of a pool: what Capstan does after the provider has deleted the instances.
//!
//! The core manager of Cluster API keeps the Nodes whose provider ID is still in the list of the
//! pool. Capstan holds the pool with a finalizer until these Nodes are deleted. It never deletes a
//! Machine while the infrastructure object of the pool exists, or a Node while a Machine does. It
//! never holds a pool whose Cluster is deleted too, or whose infrastructure object belongs to
//! another pool.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::action::{Action, Plan, Step, Wait, WaitReason, delete};
use super::records;
use super::state::{Member, State, provider_id};
use crate::api::cluster_x_k8s_io::annotation::{CLUSTER_NAME, CLUSTER_NAMESPACE, OWNER_KIND, OWNER_NAME};
use crate::api::cluster_x_k8s_io::machine_pool::KIND;
use crate::api::core_v1::node::Node;
use crate::api::kinds::{MACHINE_POOLS, NODES};
use crate::model::Precondition;

/// The finalizer of Capstan on a MachinePool.
pub const FINALIZER: &str = "capstan.dev/machine-pool";

/// Whether the pool has Capstan's finalizer.
pub fn has_finalizer(state: &State) -> bool {
    state.pool.metadata.finalizers.iter().any(|one| one == FINALIZER)
}

/// The step that adds the finalizer; `None` if the pool has it.
pub(super) fn add_finalizer(state: &State) -> Option<Step> {
    if has_finalizer(state) {
        return None;
    }
    let mut finalizers = state.pool.metadata.finalizers.clone();
    finalizers.push(FINALIZER.to_owned());
    let because = "the finalizer lets the controller delete the Nodes of a pool that is deleted";
    Some(finalizers_step(state, &finalizers, because.to_owned()))
}

/// Adds what remains to be done for a pool that is being deleted.
pub(super) fn decide(state: &State, now: Timestamp, plan: &mut Plan) {
    if !has_finalizer(state) {
        let note = "the MachinePool is being deleted: its provider deletes the Machines";
        return plan.notes.push(note.to_owned());
    }
    if let Some(other) = state.other_pool() {
        // Its instances, Machines, and Nodes are those of the other pool.
        let because = format!("its infrastructure object belongs to MachinePool {}", other.name);
        return plan.steps.push(release(state, &because));
    }
    if let Some(infrastructure) = &state.infrastructure {
        let (kind, name) = (&infrastructure.kind, infrastructure.metadata.name());
        let message = format!("{kind} {name:?} must be deleted, with all instances");
        return plan.waits.push(Wait::new(WaitReason::Infrastructure, message));
    }
    records::delete_all(state, plan);
    plan.steps.extend(left_over(state));
    if !state.members.is_empty() {
        let message = format!("{} Machine(s) of the pool must be deleted", state.members.len());
        return plan.waits.push(Wait::new(WaitReason::MachineRemoved, message));
    }
    let cluster = state.cluster.as_ref();
    if cluster.is_none_or(|cluster| cluster.metadata.is_deleting()) {
        return plan
            .steps
            .push(release(state, "its Cluster is deleted, with all Nodes"));
    }
    let Some(nodes) = &state.nodes else {
        let give_up = gives_up_at(state);
        if give_up.is_some_and(|time| time <= now) {
            return plan.steps.push(release(
                state,
                "its Nodes cannot be read, and nodeDeletionTimeoutSeconds passed",
            ));
        }
        let mut unread = Wait::new(
            WaitReason::Nodes,
            String::from("the Nodes of the cluster must be readable"),
        );
        unread.until = give_up;
        plan.reconcile_at = give_up;
        return plan.waits.push(unread);
    };
    let left: Vec<&Node> = nodes
        .iter()
        .map(AsRef::as_ref)
        .filter(|node| is_of_pool(state, node) && !node.metadata.is_deleting())
        .collect();
    if left.is_empty() {
        return plan.steps.push(release(state, "nothing of the pool is left"));
    }
    plan.steps.extend(left.into_iter().map(|node| Step {
        action: Action::DeleteNode,
        subject: NODES.object("", node.metadata.name()),
        index: None,
        because: String::from("the instance of the Node is deleted with its pool"),
        precondition: Some(Precondition {
            uid: node.metadata.uid().to_owned(),
            resource_version: String::new(),
        }),
    }));
}

/// The deletion of a Machine that the provider left: its instance was gone before the provider
/// could delete it, or it lost a label. The garbage collector would delete it after the pool, and
/// the pool waits for it.
fn left_over(state: &State) -> Option<Step> {
    let is_own = |member: &&Member| {
        let mut machines = member.machine.iter();
        !member.is_record() && machines.any(|machine| machine.metadata.controller().is_some())
    };
    let member = state.staying().find(is_own)?;
    let because = "the MachinePool is being deleted, and its infrastructure is gone";
    delete(state, member, because.to_owned())
}

/// Whether a Node was made by an instance of the pool: the pool lists its provider ID, or the
/// controllers of Cluster API annotated it.
fn is_of_pool(state: &State, node: &Node) -> bool {
    let pool = &state.pool;
    let is_listed = provider_id(node).is_some_and(|id| pool.spec.provider_id_list.iter().any(|one| one == id));
    let has = |key: &str, value: &str| node.metadata.annotations.get(key).map(String::as_str) == Some(value);
    let is_annotated = has(OWNER_KIND, KIND)
        && has(OWNER_NAME, state.name())
        && has(CLUSTER_NAME, &pool.spec.cluster_name)
        && has(CLUSTER_NAMESPACE, state.namespace());
    is_listed || is_annotated
}

/// When the deletion no longer waits for a cluster that does not respond; `None` for never.
fn gives_up_at(state: &State) -> Option<Timestamp> {
    let deletion = &state.pool.spec.template.spec.deletion;
    let seconds = deletion.get("nodeDeletionTimeoutSeconds").and_then(Value::as_i64);
    let seconds = seconds.filter(|seconds| *seconds > 0)?;
    let since = state.pool.metadata.deletion_timestamp?;
    since.checked_add(SignedDuration::from_secs(seconds)).ok()
}

fn release(state: &State, because: &str) -> Step {
    let mut finalizers = state.pool.metadata.finalizers.clone();
    finalizers.retain(|one| one != FINALIZER);
    finalizers_step(state, &finalizers, because.to_owned())
}

fn finalizers_step(state: &State, finalizers: &[String], because: String) -> Step {
    let metadata = &state.pool.metadata;
    let precondition = Precondition {
        uid: metadata.uid().to_owned(),
        resource_version: metadata.resource_version.clone().unwrap_or_default(),
    };
    let mut patch = precondition.metadata();
    patch.insert(String::from("finalizers"), json!(finalizers));
    Step {
        action: Action::Patch(json!({ "metadata": patch })),
        subject: MACHINE_POOLS.object(state.namespace(), state.name()),
        index: None,
        because,
        precondition: Some(precondition),
    }
}
