//! Judges the deletion of a Cluster or of an infrastructure cluster. The controllers of Cluster API
//! delete the Machines of a deleted Cluster, and the garbage collector deletes what the Cluster
//! owns, also mirrors.

use super::Lookup;
use crate::api::cluster_x_k8s_io::label;
use crate::authority::spec::{Api, Kind, PairMember};
use crate::model::{Edit, FieldPath, Operation, RuleInfo, Verdict, Violation, ViolationKind, Warning};

const IN_USE: &str = "authority-cluster-in-use";

/// The rules of this file.
pub(super) fn table() -> Vec<RuleInfo> {
    vec![RuleInfo::webhook(
        IN_USE,
        "Cluster of Cluster API, and infrastructure clusters",
        "",
        &[Operation::Delete],
        "must not be deleted while mirrored objects belong to it",
    )]
}

pub(super) fn validate(edit: &Edit<'_>, lookup: &Lookup<'_>, verdict: &mut Verdict) {
    let config = lookup.config;
    let guarded = edit.operation == Operation::Delete && edit.namespace == config.cluster_api_namespace;
    if !guarded || config.syncs(edit.user) || config.controls(Api::ClusterApi, edit.user) {
        return;
    }
    let old = edit.old.map(PairMember::read).unwrap_or_default();
    if old.deleting {
        return;
    }
    // An infrastructure cluster may have another name than its Cluster.
    let owners = old.owners.iter().filter(|owner| owner.kind == "Cluster");
    let mut names: Vec<&str> = owners.map(|owner| owner.name.as_str()).collect();
    names.extend(old.labels.get(label::CLUSTER).map(String::as_str));
    names.push(edit.name);
    let found = lookup.mirrors.mirrored_in_clusters(&names, config);
    let message = match (found.count, found.example) {
        _ if lookup.wait_for_unknown && !found.unknown.is_empty() => {
            String::from("must not be deleted before Capstan has read which mirrored objects belong to it")
        }
        (1, Some(example)) => format!("must not be deleted while {example}, which is mirrored, belongs to it"),
        (count, Some(example)) => {
            format!("must not be deleted while {count} mirrored objects belong to it, such as {example}")
        }
        (_, None) if found.unknown.is_empty() => return,
        // Objects from files are never complete, so a mirrored object that is given decides.
        (_, None) => {
            let title = |(api, kind): &(Api, Kind)| format!("{} in {}", kind.title(), api.title());
            let missing: Vec<String> = found.unknown.iter().map(title).collect();
            return verdict.warn(Warning::not_judged(
                IN_USE,
                format!(
                    "not checked: mirrored objects of these kinds may belong to this cluster, and none was given: {}",
                    missing.join(", ")
                ),
            ));
        }
    };
    verdict.deny(
        Violation::new(IN_USE, FieldPath::root(), ViolationKind::Forbidden, message)
            .advice("delete those objects in the API that is authoritative for them first"),
    );
}
