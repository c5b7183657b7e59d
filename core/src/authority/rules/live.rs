//! Names the objects that must be read from the API server before an edit is allowed.

use super::guards::changes_guarded_fields;
use super::{Context, Lookup, Subject};
use crate::authority::live::LiveRead;
use crate::authority::spec::Api;
use crate::authority::state::{Counterpart, pair_names};
use crate::model::{Edit, Operation};

/// The most objects that one edit reads. A user can invent any number of owners of an
/// infrastructure machine; the caches judge the others.
const MOST: usize = 4;

/// The objects that decide about an edit, and that the caches may not have yet:
///
/// - for a creation, the objects of the other API;
/// - for an update of an object of Cluster API, and for a scale request, the objects of the Machine
///   API that the caches do not have. The object of the Machine API names the authoritative API.
///
/// The sync controller reads both objects itself.
pub fn live_reads(subject: Subject, edit: &Edit<'_>, lookup: &Lookup<'_>) -> Vec<LiveRead> {
    let config = lookup.config;
    if edit.namespace != config.namespace(subject.api) || config.syncs(edit.user) {
        return Vec::new();
    }
    let context = Context::of(subject, edit, lookup);
    let scales = edit.subresource == "scale";
    let is_absent = |name: &str| {
        let found = lookup.mirrors.find(Api::MachineApi, subject.kind, name, config);
        found == Counterpart::Absent
    };
    match edit.operation {
        Operation::Create if edit.subresource.is_empty() => reads(&context, subject.api.other(), |_| true),
        Operation::Update if scales || (subject.api == Api::ClusterApi && changes_guarded_fields(&context)) => {
            reads(&context, Api::MachineApi, is_absent)
        }
        _ => Vec::new(),
    }
}

/// The objects of an API with the names of the pair.
fn reads(context: &Context<'_>, api: Api, is_wanted: impl Fn(&str) -> bool) -> Vec<LiveRead> {
    let (edit, kind) = (context.edit, context.subject.kind);
    let Some(member) = context.member() else {
        return Vec::new();
    };
    let name = if edit.name.is_empty() { &member.name } else { edit.name };
    let mut names = pair_names(kind, member, name);
    // The own name is the last one. It must not be crowded out by invented owners.
    names.reverse();
    let mut reads: Vec<LiveRead> = Vec::new();
    for name in names.into_iter().filter(|name| is_wanted(name)) {
        if reads.len() < MOST && !reads.iter().any(|read| read.name == name) {
            reads.push(LiveRead {
                api,
                kind: kind.mirrored_kind(),
                namespace: context.lookup.config.namespace(api).to_owned(),
                name: name.to_owned(),
                is_stored: edit.operation == Operation::Create && !edit.dry_run,
            });
        }
    }
    reads
}
