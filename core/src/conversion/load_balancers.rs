//! The load balancers of AWS machines.
//!
//! The Machine API registers each machine with the load balancers in its provider spec. Cluster API
//! registers control plane machines with the load balancers of the AWSCluster, and no other
//! machines. A machine with other load balancers cannot be converted.
//!
//! Source: the fields that OpenShift's implementation of the Converting Machine API to Cluster API
//! enhancement drops.

use serde_json::{Value, json};

use super::pass::Pass;
use super::pass::rule::Hand;
use super::tree::{self, Tree};
use super::{Api, Lookup, Severity, metadata};

const FIELD: &str = "loadBalancers";

/// The load balancers.
pub(super) const LOAD_BALANCERS: Hand = Hand {
    machine_api: &[FIELD],
    cluster_api: &[],
    about: "those of the AWSCluster, for control plane machines only",
    to: to_cluster_api,
    back: to_machine_api,
};

/// Name and type of a load balancer, with the type as the Machine API names it.
type Balancer<'v> = (&'v str, &'static str);

/// The load balancers of the AWSCluster. A load balancer that the Machine API cannot name is an
/// issue: without a name, or of another type. So is a cluster without the first one, because
/// Cluster API creates it then.
fn of_cluster<'v>(pass: &mut Pass<'_>, cluster: &'v Value) -> Vec<Balancer<'v>> {
    let mut found = Vec::new();
    for (field, needed) in [
        ("controlPlaneLoadBalancer", true),
        ("secondaryControlPlaneLoadBalancer", false),
    ] {
        let balancer = cluster.get(field).filter(|value| !value.is_null());
        if balancer.is_none() && !needed {
            continue;
        }
        let balancer = balancer.unwrap_or(&Value::Null);
        let kind = match tree::text(balancer, "loadBalancerType") {
            None | Some("classic" | "elb") => Some("classic"),
            Some("nlb") => Some("network"),
            Some(_) => None,
        };
        match (tree::text(balancer, "name"), kind) {
            (Some(name), Some(kind)) => found.push((name, kind)),
            _ => pass.report(
                Severity::Blocks,
                format!("AWSCluster spec.{field}"),
                "the Machine API names the load balancers of a control plane machine, classic or network",
                "set the name of the load balancer, and its type to classic, elb or nlb",
            ),
        }
    }
    found
}

fn to_cluster_api(pass: &mut Pass<'_>) {
    let list = pass.take_list(FIELD);
    if !pass.env.control_plane {
        if !list.is_empty() {
            pass.block(
                FIELD,
                "Cluster API registers only control plane machines with load balancers",
                "remove them",
            );
        }
        return;
    }
    match pass.cluster() {
        Lookup::Unknown => {}
        Lookup::Absent => {
            if !list.is_empty() {
                pass.block(
                    FIELD,
                    "Cluster API sets load balancers in the AWSCluster, and no AWSCluster was given",
                    "give the AWSCluster of the cluster",
                );
            }
        }
        Lookup::Found(cluster) => {
            let balancers = of_cluster(pass, cluster);
            compare(pass, list, &balancers);
        }
    }
}

/// Reports where a control plane machine differs from the AWSCluster.
fn compare(pass: &mut Pass<'_>, list: Vec<Tree>, in_cluster: &[Balancer<'_>]) {
    let all: Vec<String> = in_cluster
        .iter()
        .map(|(name, kind)| format!("{name:?} ({kind})"))
        .collect();
    let all = match all.as_slice() {
        [] => String::from("no load balancer"),
        all => all.join(" and "),
    };
    let mut named = Vec::new();
    for mut entry in list {
        let name = entry.take_text("name").unwrap_or_default();
        let kind = entry.take_text("type").unwrap_or_default();
        let root = entry.root.clone();
        metadata::report_rest(&entry, Api::ClusterApi, &mut pass.issues);
        match in_cluster.iter().find(|(in_cluster, _)| *in_cluster == name) {
            None => pass.report(
                Severity::Blocks,
                format!("{root}.name"),
                format!("it is {name:?}, but the AWSCluster has {all} for all control plane machines"),
                "use one of these load balancers",
            ),
            Some((_, in_cluster)) if *in_cluster != kind => pass.report(
                Severity::Blocks,
                format!("{root}.type"),
                format!("it is {kind:?}, but the type in the AWSCluster is {in_cluster:?}"),
                "use the type of the AWSCluster",
            ),
            Some(_) if named.contains(&name) => pass.report(
                Severity::Blocks,
                root,
                "Cluster API registers a machine once with each load balancer",
                "remove the duplicate",
            ),
            Some(_) => {}
        }
        named.push(name);
    }
    for (name, _) in in_cluster
        .iter()
        .filter(|(name, _)| !named.iter().any(|known| known == name))
    {
        pass.block(
            FIELD,
            format!("the AWSCluster registers all control plane machines with {name:?} too"),
            "add it",
        );
    }
}

fn to_machine_api(pass: &mut Pass<'_>) {
    let Lookup::Found(cluster) = pass.cluster() else { return };
    if !pass.env.control_plane {
        return;
    }
    let balancers = of_cluster(pass, cluster);
    if !balancers.is_empty() {
        let list = balancers
            .into_iter()
            .map(|(name, kind)| json!({"name": name, "type": kind}));
        let list = list.collect();
        pass.put(FIELD, list);
    }
}
