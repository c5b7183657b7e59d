//! The machine that a node belongs to, if several machines name the node.
//!
//! A reused address or host name can lead the machine controller to name the node of another
//! machine. If the node counted for both, a rollout would delete the old machine although its
//! replacement has no node. So a node must never count for two machines.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::api::core_v1::node::Node;
use crate::api::machine_openshift_io::machine::Machine;

/// For each node that several of the machines name, the name of the machine that it belongs to: the
/// machine with the instance of the node, or else the oldest.
pub(crate) fn owners<'a>(
    machines: &[&'a Arc<Machine>],
    nodes: &BTreeMap<&str, &Arc<Node>>,
) -> BTreeMap<&'a str, &'a str> {
    let mut claims: BTreeMap<&str, Vec<&Machine>> = BTreeMap::new();
    for machine in machines {
        if let Some(node) = machine.node_name() {
            claims.entry(node).or_default().push(machine);
        }
    }
    claims.retain(|_, claiming| claiming.len() > 1);
    let owner = |(node, claiming): (&'a str, Vec<&'a Machine>)| {
        let instance = nodes.get(node).and_then(|node| instance(node));
        let order = |machine: &&Machine| {
            let own = machine.spec.provider_id.as_deref().filter(|id| !id.is_empty());
            let is_other = own.is_none() || own != instance;
            (
                is_other,
                machine.metadata.creation_timestamp,
                machine.metadata.name().to_owned(),
            )
        };
        let owner = claiming.into_iter().min_by_key(order)?;
        Some((node, owner.metadata.name()))
    };
    claims.into_iter().filter_map(owner).collect()
}

/// The platform's id of the instance of a node.
fn instance(node: &Node) -> Option<&str> {
    node.unknown_fields.get("spec")?.get("providerID")?.as_str()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::cpms::action::Action;
    use crate::cpms::simulation::{NEW, OLD, World, node_name};

    /// A replacement whose machine controller names the node of the machine that it replaces.
    fn sharing() -> (World, String) {
        let mut world = World::new("a b c", OLD);
        world.want(NEW);
        let step = world.plan().steps.pop().unwrap();
        world.apply(&step);
        let name = step.machine().unwrap().to_owned();
        let status = json!({"phase": "Running", "nodeRef": {"name": node_name("ocp-x7k2p-master-0")}});
        world.machine(&name).status = serde_json::from_value(status).unwrap();
        world.pass(3600);
        (world, name)
    }

    #[test]
    fn w9_a_replacement_with_the_node_of_the_old_machine_does_not_cost_the_old_machine() {
        let (world, name) = sharing();
        let plan = world.plan();
        let deleted = plan
            .steps
            .iter()
            .any(|step| matches!(step.action, Action::Delete { .. }));
        assert!(!deleted, "{:?}", plan.steps);
        let wait = plan.waits.iter().find(|wait| wait.machine() == Some(&name)).unwrap();
        assert!(wait.message.contains("ocp-x7k2p-master-0"), "{}", wait.message);
    }

    #[test]
    fn w9_a_node_belongs_to_the_machine_with_its_instance() {
        let (mut world, name) = sharing();
        let node = node_name("ocp-x7k2p-master-0");
        world.machine(&name).spec.provider_id = Some("aws:///a/i-2".to_owned());
        for known in &mut world.observed.nodes {
            if known.metadata.name() == node {
                let known = std::sync::Arc::make_mut(known);
                known
                    .unknown_fields
                    .insert("spec".to_owned(), json!({"providerID": "aws:///a/i-2"}));
            }
        }
        let state = world.state();
        let ready = |name: &str| {
            state
                .each_machine()
                .find(|machine| machine.name == name)
                .unwrap()
                .is_ready()
        };
        assert!(ready(&name) && !ready("ocp-x7k2p-master-0"));
    }
}
