//! Names the objects that must be read from the API server before a creation is allowed.

use super::Subject;
use crate::authority::config::Config;
use crate::authority::live::LiveRead;
use crate::authority::spec::PairMember;
use crate::authority::state::pair_names;
use crate::model::{Edit, Operation};

/// The most objects that one creation reads. A user can invent any number of owners of an
/// infrastructure machine; the caches judge the others.
const MOST: usize = 4;

/// The objects of the other API that decide about a creation; empty for any other operation. The
/// sync controller reads both objects itself.
pub fn reads_of_creation(subject: Subject, edit: &Edit<'_>, config: &Config) -> Vec<LiveRead> {
    let created = edit
        .object
        .filter(|_| edit.operation == Operation::Create && edit.subresource.is_empty());
    let Some(object) = created else {
        return Vec::new();
    };
    if edit.namespace != config.namespace(subject.api) || config.syncs(edit.user) {
        return Vec::new();
    }
    let new = PairMember::read(object);
    let name = if edit.name.is_empty() { &new.name } else { edit.name };
    let mut names = pair_names(subject.kind, &new, name);
    // The own name is the last one. It must not be crowded out by invented owners.
    names.reverse();
    let mut reads: Vec<LiveRead> = Vec::new();
    let api = subject.api.other();
    for name in names {
        if reads.len() < MOST && !reads.iter().any(|read| read.name == name) {
            reads.push(LiveRead {
                api,
                kind: subject.kind.mirrored_kind(),
                namespace: config.namespace(api).to_owned(),
                name: name.to_owned(),
                is_stored: !edit.dry_run,
            });
        }
    }
    reads
}
