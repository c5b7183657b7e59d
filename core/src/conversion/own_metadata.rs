//! Converts the labels and annotations of a MachineSet or a MachineHealthCheck itself, which has no
//! node.

use super::Api;
use super::machine;
use super::metadata::{self, Entries, Hints, Pair, Sort};
use super::parts::Work;
use super::tree::Tree;

/// The section of the carried annotation.
fn section(sort: Sort) -> &'static str {
    match sort {
        Sort::Labels => "setLabels",
        Sort::Annotations => "setAnnotations",
    }
}

/// Converts the metadata of an object of the Machine API to labels and annotations.
pub(super) fn to_cluster_api(mut tree: Tree, work: &mut Work) -> [Entries; 2] {
    let converted = [Sort::Labels, Sort::Annotations].map(|sort| {
        let own = metadata::take(&mut tree, sort, &mut work.issues);
        let pair = Pair { own, ..Pair::default() };
        metadata::to_cluster_api(sort, section(sort), pair, &work.restored, &mut work.carried)
    });
    machine::rest_of_metadata(tree, Api::ClusterApi, work);
    converted
}

/// Converts the metadata of an object of Cluster API to labels and annotations.
pub(super) fn to_machine_api(mut tree: Tree, hints: Hints<'_>, work: &mut Work) -> [Entries; 2] {
    let converted = [Sort::Labels, Sort::Annotations].map(|sort| {
        let own = metadata::take(&mut tree, sort, &mut work.issues);
        metadata::set_to_machine_api(sort, section(sort), own, hints, &work.restored, &mut work.carried)
    });
    machine::rest_of_metadata(tree, Api::MachineApi, work);
    converted
}
