//! The load balancers of control plane machines.
//!
//! The Machine API lists the load balancers in the provider spec. Cluster API registers control
//! plane machines with the load balancers of the infrastructure cluster, and no other machines. A
//! machine with other load balancers cannot be converted. This holds for AWS, Power VS and IBM
//! Cloud VPC.
//!
//! Source: the fields that OpenShift's implementation of the Converting Machine API to Cluster API
//! enhancement drops; the controllers of Cluster API's infrastructure providers.

use serde_json::{Map, Value, json};

use super::pass::Pass;
use super::pass::rule::Hand;
use super::tree::{self, Tree};
use super::{Api, Lookup, Severity, metadata};

const FIELD: &str = "loadBalancers";

/// The load balancers.
pub(super) const LOAD_BALANCERS: Hand = Hand {
    machine_api: &[FIELD],
    cluster_api: &[],
    about: "those of the infrastructure cluster, for control plane machines only",
    to: to_cluster_api,
    back: to_machine_api,
};

/// Name and type of a load balancer, with the type as the Machine API names it.
type Balancer<'v> = (&'v str, &'static str);

/// The load balancers of the infrastructure cluster.
fn of_cluster<'v>(pass: &mut Pass<'_>, cluster: &'v Value) -> Vec<Balancer<'v>> {
    match pass.env.cluster_kind {
        "IBMPowerVSCluster" => {
            let list = cluster.get("loadBalancers").and_then(Value::as_array);
            let list = list.into_iter().flatten().enumerate();
            let named = list.filter_map(|(index, balancer)| of_ibm(pass, balancer, &format!("loadBalancers[{index}]")));
            named.collect()
        }
        "IBMVPCCluster" => {
            let balancer = cluster.get("controlPlaneLoadBalancer").filter(|value| !value.is_null());
            let named = balancer.and_then(|balancer| of_ibm(pass, balancer, "controlPlaneLoadBalancer"));
            named.into_iter().collect()
        }
        _ => of_aws(pass, cluster),
    }
}

/// A load balancer of IBM Cloud, where all that Cluster API knows are application load balancers.
/// One without a name is an issue.
fn of_ibm<'v>(pass: &mut Pass<'_>, balancer: &'v Value, field: &str) -> Option<Balancer<'v>> {
    let name = tree::text(balancer, "name");
    if name.is_none() {
        pass.report(
            Severity::Blocks,
            format!("{} spec.{field}", pass.env.cluster_kind),
            "the Machine API names the load balancers of a control plane machine",
            "set the name of the load balancer",
        );
    }
    name.map(|name| (name, "Application"))
}

/// The load balancers of the AWSCluster. A load balancer that the Machine API cannot name is an
/// issue: without a name, or of another type. So is a cluster without the first one, because
/// Cluster API creates it then.
fn of_aws<'v>(pass: &mut Pass<'_>, cluster: &'v Value) -> Vec<Balancer<'v>> {
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
                let (kind, path) = (pass.env.cluster_kind, pass.path(FIELD));
                pass.report(
                    Severity::Loses,
                    path,
                    format!("Cluster API sets load balancers in the {kind}, and no {kind} was given"),
                    format!("give the {kind} of the cluster"),
                );
            }
        }
        Lookup::Found(cluster) => {
            let balancers = of_cluster(pass, cluster);
            compare(pass, list, &balancers);
        }
    }
}

/// Reports where a control plane machine differs from the infrastructure cluster.
fn compare(pass: &mut Pass<'_>, list: Vec<Tree>, in_cluster: &[Balancer<'_>]) {
    let cluster = pass.env.cluster_kind;
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
                format!("it is {name:?}, but the {cluster} has {all} for all control plane machines"),
                format!("use one of these load balancers, or add this one to the {cluster}"),
            ),
            Some((_, in_cluster)) if *in_cluster != kind => pass.report(
                Severity::Blocks,
                format!("{root}.type"),
                format!("it is {kind:?}, but the type in the {cluster} is {in_cluster:?}"),
                format!("use the type of the {cluster}"),
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
            format!("the {cluster} registers all control plane machines with {name:?} too"),
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

/// Brings the list into one order: it has no meaning.
pub(super) fn normal(spec: &mut Map<String, Value>) {
    if let Some(Value::Array(balancers)) = spec.get_mut(FIELD) {
        balancers.sort_by_key(|balancer| tree::text(balancer, "name").unwrap_or_default().to_owned());
    }
}
