//! What the ControlPlaneMachineSet controller may write to machines.
//!
//! A write is judged by what was true at some moment of the reconcile that caused it: when it
//! began, when it read live, and now. No controller can know what changes while its request is on
//! the way. But a reason that was true at none of these moments is not a reason.

use capstan_core::api::machine_openshift_io::machine::Machine;
use capstan_core::cpms::indexes::REPLACES;
use jiff::Timestamp;

use crate::api::{Change, ChangeKind, Object};
use crate::simulation::invariants::check::Check;
use crate::simulation::invariants::evidence::Evidence;
use crate::simulation::invariants::moment::{Moment, belongs_to_set, index_of, is_of_template};
use crate::simulation::machine_api::objects::PREFIX;

/// The most creations of one index in an hour. Users, health checks, and failures cause a few.
const MOST_BIRTHS: usize = 12;
/// For how many seconds a node is ready before its machine counts as ready.
const MIN_READY: i64 = 10;

/// A write of the controller to a machine.
pub(crate) struct MachineWrite<'a> {
    pub(crate) change: &'a Change,
    /// The machine after the write.
    pub(crate) machine: &'a Machine,
    /// What was true during the reconcile; the last moment is now, before the write.
    pub(crate) moments: &'a [Moment],
    /// What is true now, before the write.
    pub(crate) now: &'a Moment,
    pub(crate) evidence: &'a Evidence,
    /// The time of the write.
    pub(crate) at: Timestamp,
    /// An etcd member has been unhealthy for so long that the operator must have reported it.
    pub(crate) has_sick_member: bool,
    /// The caches of the controller do not show every machine as it is stored.
    pub(crate) has_stale_cache: bool,
}

impl<'a> MachineWrite<'a> {
    /// The checks of a write to a machine. The first one that fails counts.
    pub(crate) const CHECKS: [Check<Self>; 35] = [
        Check::new("C4", written_while_inactive),
        Check::new("C4", created_or_deleted_without_active_set),
        Check::new("C3", created_or_deleted_with_unmanaged_node),
        Check::new("C3", replaced_with_failed_replacement),
        Check::new("C9", created_under_other_name),
        Check::new("C9", created_for_other_index),
        Check::new("C9", created_for_new_index),
        Check::new("G1", created_twice),
        Check::new("C7", created_unneeded_on_delete),
        Check::new("P1", created_unneeded_while_paused),
        Check::new("P1", deleted_while_paused),
        Check::new("P9", replaced_beyond_limit),
        Check::new("G9", created_unneeded),
        Check::new("C13", created_too_many_with_stale_view),
        Check::new("C1", created_too_many),
        Check::new("G9", created_at_no_single_moment),
        Check::new("C7", deleted_on_delete),
        Check::new("C2", deleted_while_last_ready),
        Check::new("G9", deleted_without_reason),
        Check::new("C12", deleted_while_another_is_not_ready),
        Check::new("C12", deleted_while_etcd_is_not_healthy),
        Check::new("C12", deleted_while_member_is_sick),
        Check::new("P10", deleted_before_replacement_is_stable),
        Check::new("C10", hooks_changed),
        Check::new("G8", finalizers_changed),
        Check::new("G9", spec_changed),
        Check::new("P2", written_outside_set),
        Check::new("P3", deleted_although_of_revision),
        Check::new("P4", created_too_often),
        Check::new("P5", deleted_while_index_is_not_ready),
        Check::new("G9", deleted_at_no_single_moment),
        Check::new("P8", created_under_former_name),
        Check::new("P2", written_at_no_single_moment),
        Check::new("P14", deleted_after_change),
        Check::new("P15", deleted_before_unready),
    ];
}

/// Whether a change begins the deletion of an object, or removes it at once.
pub(crate) fn is_deletion(change: &Change) -> bool {
    let deleting = |object: &Object| object.pointer("/metadata/deletionTimestamp").is_some();
    let before = change.old.as_ref().is_some_and(|old| deleting(old));
    !before && (change.kind == ChangeKind::Deleted || deleting(&change.object))
}

impl MachineWrite<'_> {
    fn name(&self) -> &str {
        self.machine.metadata.name()
    }

    fn index(&self) -> Option<u32> {
        index_of(self.machine)
    }

    /// The uid of the machine that a new machine replaces; empty if it replaces none.
    fn replaced(&self) -> &str {
        let annotation = self.machine.metadata.annotations.get(REPLACES);
        annotation.map(String::as_str).unwrap_or_default()
    }

    fn is_creation(&self) -> bool {
        self.change.kind == ChangeKind::Added
    }

    fn is_deletion(&self) -> bool {
        !self.is_creation() && is_deletion(self.change)
    }

    fn is_patch(&self) -> bool {
        !self.is_creation() && !self.is_deletion()
    }

    fn always(&self, holds: impl Fn(&Moment) -> bool) -> bool {
        self.moments.iter().all(holds)
    }

    fn ever(&self, holds: impl Fn(&Moment) -> bool) -> bool {
        self.moments.iter().any(holds)
    }

    /// Whether the machine is created although its index never needed one.
    fn is_unneeded(&self) -> bool {
        let index = self.index();
        self.is_creation() && !self.ever(|moment| moment.needs_machine(index))
    }

    /// Whether the machine is created or deleted, and this was true all the time.
    fn disrupts_while(&self, holds: impl Fn(&Moment) -> bool) -> bool {
        !self.is_patch() && self.always(holds)
    }

    /// Whether the machine is deleted, and there never was a reason for it.
    fn is_deleted_without_reason(&self) -> bool {
        self.is_deletion() && !self.ever(|moment| moment.reason_to_delete(self.name()).is_some())
    }

    /// Whether a machine is deleted that was ready all the time. Its node may have become ready
    /// while the request was on the way (seed 240046).
    fn deletes_ready(&self) -> bool {
        self.is_deletion() && self.always(|moment| moment.has_ready(self.name()))
    }

    /// The reason why the machine may be deleted.
    pub(crate) fn reason_to_delete(&self) -> Option<String> {
        let mut moments = self.moments.iter().filter(|_| self.is_deletion());
        moments.find_map(|moment| moment.reason_to_delete(self.name()))
    }

    /// Whether the others serve if this ready machine is deleted: no machine is unready, and either
    /// each index has a ready machine, or a ready machine replaces this one.
    fn keeps_capacity(&self, moment: &Moment) -> bool {
        let replicas = self.evidence.replicas;
        let serves_all = moment.ready_indexes() >= replicas || moment.ready() > replicas;
        moment.ready() >= replicas && (serves_all || moment.is_replaced(self.name()))
    }

    /// Whether more machines exist than allowed, and how many they are with the new one.
    fn too_many(&self) -> Option<usize> {
        let on_delete = self.now.is_on_delete();
        // OnDelete leaves an outdated machine beside its replacement to the user.
        let most = if on_delete {
            self.evidence.replicas * 2
        } else {
            self.evidence.replicas + 1
        };
        let machines = self.now.machines.iter().filter(|(_, one)| belongs_to_set(one));
        let counted = machines.filter(|(name, machine)| self.counts(name, machine, on_delete));
        let count = 1 + counted.count();
        (self.is_creation() && count > most).then_some(count)
    }

    /// Whether a machine counts: it is ready, or may become ready.
    fn counts(&self, name: &String, machine: &Machine, on_delete: bool) -> bool {
        let evidence = self.evidence;
        let of_deletion = || evidence.exempts("deleted-by-user", evidence.deleted_by_user.contains(name));
        let leaves = machine.metadata.is_deleting() && (!self.now.is_ready(machine) || of_deletion());
        // The controller cannot know of a machine that a user creates while the request is on the
        // way.
        let unseen = || self.ever(|moment| !moment.machines.contains_key(name));
        let of_user = evidence.made_by_hand.contains(name) && (on_delete || unseen());
        !leaves && !evidence.exempts("made-by-hand", of_user)
    }
}

fn written_while_inactive(write: &MachineWrite<'_>) -> Option<String> {
    let text = || format!("machine {} is written although the set is Inactive", write.name());
    write.always(Moment::is_inactive).then(text)
}

fn created_or_deleted_without_active_set(write: &MachineWrite<'_>) -> Option<String> {
    let text = || {
        format!(
            "machine {} is created or deleted although there is no Active set",
            write.name()
        )
    };
    write.disrupts_while(|moment| !moment.is_active()).then(text)
}

fn created_or_deleted_with_unmanaged_node(write: &MachineWrite<'_>) -> Option<String> {
    let text = || {
        format!(
            "machine {} is created or deleted while a node belongs to no machine",
            write.name()
        )
    };
    write.disrupts_while(Moment::has_unmanaged_node).then(text)
}

/// The controller may create a machine for an index without a machine nevertheless.
fn replaced_with_failed_replacement(write: &MachineWrite<'_>) -> Option<String> {
    let index = write.index();
    let starts = |moment: &Moment| moment.has_failed_replacement() && !moment.live(index).is_empty();
    let text = || {
        format!(
            "machine {} is created although another replacement has failed",
            write.name()
        )
    };
    (write.is_creation() && write.always(starts)).then(text)
}

fn created_under_other_name(write: &MachineWrite<'_>) -> Option<String> {
    let usual = write.name().starts_with(PREFIX) && write.index().is_some();
    let text = || {
        format!(
            "machine {} does not have the name of a control plane machine",
            write.name()
        )
    };
    (write.is_creation() && !usual).then(text)
}

fn created_for_other_index(write: &MachineWrite<'_>) -> Option<String> {
    let replaced = |moment: &Moment| {
        let mut machines = moment.machines.iter();
        let (name, old) = machines.find(|(_, machine)| machine.metadata.uid() == write.replaced())?;
        // At the first moments, the index of a machine whose name has none may not be recorded yet.
        let index = index_of(old).filter(|index| Some(*index) != write.index());
        index.map(|_| name.clone())
    };
    let mut moments = write.moments.iter().filter(|_| write.is_creation());
    let old = moments.find_map(replaced)?;
    Some(format!(
        "machine {} replaces machine {old}, which has another index",
        write.name()
    ))
}

fn created_for_new_index(write: &MachineWrite<'_>) -> Option<String> {
    let wanted = write.index();
    let usual = wanted
        .and_then(|wanted| usize::try_from(wanted).ok())
        .is_some_and(|wanted| wanted < write.evidence.replicas);
    let known = || write.ever(|moment| moment.of_index(wanted).next().is_some());
    let text = || format!("machine {} has a new index", write.name());
    (write.is_creation() && !usual && !known()).then(text)
}

fn created_twice(write: &MachineWrite<'_>) -> Option<String> {
    let replaced = write.replaced();
    if !write.is_creation() || replaced.is_empty() {
        return None;
    }
    for invariant in ["C9", "G1", "G2", "G5"] {
        write.evidence.tests(invariant, true);
    }
    let live = write.now.live(write.index()).into_iter();
    let mut others = live.filter(|(_, one)| {
        one.metadata
            .annotations
            .get(REPLACES)
            .is_some_and(|uid| uid == replaced)
    });
    let (other, _) = others.next()?;
    Some(format!(
        "machine {} and machine {other} replace the same machine",
        write.name()
    ))
}

fn created_unneeded_on_delete(write: &MachineWrite<'_>) -> Option<String> {
    created_unneeded(write).filter(|_| write.always(Moment::is_on_delete))
}

fn created_unneeded_while_paused(write: &MachineWrite<'_>) -> Option<String> {
    created_unneeded(write).filter(|_| write.always(Moment::is_paused))
}

fn deleted_while_paused(write: &MachineWrite<'_>) -> Option<String> {
    let text = || format!("machine {} is deleted although the rollout is paused", write.name());
    (write.is_deletion() && write.always(Moment::is_paused)).then(text)
}

/// The limit counts indexes with a machine that is up to date. An index without a machine gets one
/// nevertheless.
fn replaced_beyond_limit(write: &MachineWrite<'_>) -> Option<String> {
    let index = write.index();
    let reached = |moment: &Moment| !moment.live(index).is_empty() && moment.has_reached_limit();
    let text = || {
        format!(
            "machine {} replaces another one although the limit of the rollout is reached",
            write.name()
        )
    };
    (write.is_creation() && write.always(reached)).then(text)
}

fn created_unneeded(write: &MachineWrite<'_>) -> Option<String> {
    let text = || format!("machine {} is created, and its index needs no machine", write.name());
    write.is_unneeded().then(text)
}

fn created_too_many_with_stale_view(write: &MachineWrite<'_>) -> Option<String> {
    let is_stale = write.has_stale_cache;
    write.evidence.tests("C13", write.is_creation() && is_stale);
    created_too_many(write).filter(|_| is_stale)
}

fn created_too_many(write: &MachineWrite<'_>) -> Option<String> {
    let count = write.too_many()?;
    Some(format!(
        "with machine {}, there are {count} machines for {} replicas",
        write.name(),
        write.evidence.replicas
    ))
}

fn deleted_on_delete(write: &MachineWrite<'_>) -> Option<String> {
    let text = || format!("machine {} is deleted although the strategy is OnDelete", write.name());
    (write.is_deletion() && write.always(Moment::is_on_delete)).then(text)
}

fn deleted_while_last_ready(write: &MachineWrite<'_>) -> Option<String> {
    deleted_without_reason(write).filter(|_| write.ever(|moment| moment.has_ready(write.name())))
}

fn deleted_without_reason(write: &MachineWrite<'_>) -> Option<String> {
    let text = || format!("machine {} is deleted without a ready replacement", write.name());
    write.is_deleted_without_reason().then(text)
}

fn deleted_while_another_is_not_ready(write: &MachineWrite<'_>) -> Option<String> {
    let enough = || write.ever(|moment| moment.ready() >= write.evidence.replicas);
    let text = || format!("machine {} is deleted while another machine is not ready", write.name());
    (write.deletes_ready() && !enough()).then(text)
}

fn deleted_while_etcd_is_not_healthy(write: &MachineWrite<'_>) -> Option<String> {
    let text = || {
        format!(
            "machine {} is deleted while an etcd member is not healthy",
            write.name()
        )
    };
    (write.deletes_ready() && write.always(|moment| !moment.etcd_healthy)).then(text)
}

/// The state of the members is that of etcd, and not what its operator reports.
fn deleted_while_member_is_sick(write: &MachineWrite<'_>) -> Option<String> {
    let text = || {
        format!(
            "machine {} is deleted while an etcd member is sick, whatever the operator reports",
            write.name()
        )
    };
    (write.deletes_ready() && write.has_sick_member && write.evidence.is_undisturbed()).then(text)
}

/// Each part of the reason was true at some moment, and there was no moment at which all of them
/// were.
fn created_at_no_single_moment(write: &MachineWrite<'_>) -> Option<String> {
    let index = write.index();
    let is_allowed = |moment: &Moment| {
        let replaces = !moment.live(index).is_empty();
        moment.is_active()
            && !moment.has_unmanaged_node()
            && moment.needs_machine(index)
            && !(replaces && (moment.has_failed_replacement() || moment.has_reached_limit()))
    };
    let text = || {
        format!(
            "machine {} is created, and at no moment was everything true that allows it",
            write.name()
        )
    };
    (write.is_creation() && !write.ever(is_allowed)).then(text)
}

/// The machine belonged to the set at some moment, and the set was Active at another one only.
fn written_at_no_single_moment(write: &MachineWrite<'_>) -> Option<String> {
    let is_allowed = |moment: &Moment| {
        let machine = moment.machines.get(write.name());
        !moment.is_inactive() && machine.is_some_and(|machine| belongs_to_set(machine))
    };
    let text = || {
        format!(
            "machine {} is written, and at no moment did it belong to an Active set",
            write.name()
        )
    };
    (write.is_patch() && !write.ever(is_allowed)).then(text)
}

/// The same for a deletion.
fn deleted_at_no_single_moment(write: &MachineWrite<'_>) -> Option<String> {
    let is_allowed = |moment: &Moment| {
        let serves = moment.has_ready(write.name());
        let sent = write.evidence.sent(write.name());
        moment.is_active()
            && !moment.is_on_delete()
            && !moment.is_paused()
            && !moment.has_unmanaged_node()
            && moment.reason_to_delete(write.name()).is_some()
            && !sent.is_some_and(|sent| moment.is_only_of_revision(write.name(), sent))
            && (!serves || moment.etcd_healthy && write.keeps_capacity(moment))
    };
    let text = || {
        format!(
            "machine {} is deleted, and at no moment was everything true that allows it",
            write.name()
        )
    };
    (write.is_deletion() && !write.ever(is_allowed)).then(text)
}

/// Every ready machine of the template of the index became ready a moment ago. The clock of a
/// disturbed process may be wrong.
fn deleted_before_replacement_is_stable(write: &MachineWrite<'_>) -> Option<String> {
    let judged = write.deletes_ready() && write.evidence.is_undisturbed();
    let set = write.now.set.as_ref().filter(|_| judged)?;
    let live = write.now.live(write.index()).into_iter();
    let (updated, outdated): (Vec<_>, Vec<_>) = live
        .filter(|(name, _)| *name != write.name())
        .partition(|(_, machine)| is_of_template(set, machine));
    let mut ready = updated
        .iter()
        .filter(|(_, machine)| write.now.is_ready(machine))
        .peekable();
    // One of two outdated machines may be deleted although no replacement is ready.
    ready.peek().filter(|_| outdated.is_empty())?;
    write.evidence.tests("P10", true);
    let is_fresh = |machine: &Machine| {
        let since = write.now.ready_since(machine);
        since.is_some_and(|since| write.at.duration_since(since).as_secs() < MIN_READY)
    };
    let text = || {
        format!(
            "machine {} is deleted, and its replacement has been ready for less than {MIN_READY}s",
            write.name()
        )
    };
    ready.all(|(_, machine)| is_fresh(machine)).then(text)
}

/// Whether a patch changes a field.
fn changes(write: &MachineWrite<'_>, pointer: &str) -> bool {
    let Some(old) = write.change.old.as_ref().filter(|_| write.is_patch()) else {
        return false;
    };
    let new = &write.change.object;
    write
        .evidence
        .tests("C10", old.pointer("/spec/lifecycleHooks").is_some());
    write
        .evidence
        .tests("G8", old.pointer("/metadata/finalizers").is_some());
    let shared = pointer.starts_with("/spec") && old.has_same(new, "spec");
    !shared && old.pointer(pointer) != new.pointer(pointer)
}

fn hooks_changed(write: &MachineWrite<'_>) -> Option<String> {
    let text = || format!("the lifecycle hooks of machine {} change", write.name());
    changes(write, "/spec/lifecycleHooks").then(text)
}

fn finalizers_changed(write: &MachineWrite<'_>) -> Option<String> {
    let text = || format!("the finalizers of machine {} change", write.name());
    changes(write, "/metadata/finalizers").then(text)
}

fn spec_changed(write: &MachineWrite<'_>) -> Option<String> {
    let text = || format!("the spec of machine {} changes", write.name());
    changes(write, "/spec").then(text)
}

/// A machine that belonged to the set at no moment of the reconcile is written.
fn written_outside_set(write: &MachineWrite<'_>) -> Option<String> {
    let belonged = |moment: &Moment| {
        moment
            .machines
            .get(write.name())
            .is_some_and(|machine| belongs_to_set(machine))
    };
    let text = || format!("machine {} is written, and it does not belong to the set", write.name());
    (write.change.kind != ChangeKind::Added && !write.ever(belonged)).then(text)
}

/// A machine that was created from the template as it is, and is the only one of its index, is
/// deleted.
fn deleted_although_of_revision(write: &MachineWrite<'_>) -> Option<String> {
    let sent = write.evidence.sent(write.name()).filter(|_| write.is_deletion())?;
    let text = || {
        format!(
            "machine {} is deleted, and it was created from the template",
            write.name()
        )
    };
    let wrong = write.always(|moment| moment.is_only_of_revision(write.name(), sent));
    wrong.then(text)
}

fn created_too_often(write: &MachineWrite<'_>) -> Option<String> {
    let count = write.evidence.births(write.index());
    write.evidence.tests("P4", write.is_creation() && count > 1);
    let text = || format!("machine {} is number {count} of its index in an hour", write.name());
    (write.is_creation() && count > MOST_BIRTHS).then(text)
}

/// A ready machine is deleted while another index has no ready one, and nothing replaces it.
fn deleted_while_index_is_not_ready(write: &MachineWrite<'_>) -> Option<String> {
    let replicas = write.evidence.replicas;
    let costs = |moment: &Moment| {
        moment.ready_indexes() < replicas && moment.ready() <= replicas && !moment.is_replaced(write.name())
    };
    let text = || {
        format!(
            "machine {} is ready and deleted while an index has no ready machine",
            write.name()
        )
    };
    (write.deletes_ready() && write.always(costs)).then(text)
}

/// A machine that replaces no other one has the name of a machine that is gone. Clouds find
/// instances by name.
fn created_under_former_name(write: &MachineWrite<'_>) -> Option<String> {
    let text = || format!("machine {} has the name of a machine that is gone", write.name());
    let repairs = write.is_creation() && write.replaced().is_empty();
    write.evidence.tests("P8", repairs && write.evidence.has_former_names());
    (repairs && write.evidence.is_former_name(write.name())).then(text)
}

/// The machine is not the one that the controller read live: it was written since then, or another
/// machine has its name.
fn deleted_after_change(write: &MachineWrite<'_>) -> Option<String> {
    let old = write.now.machines.get(write.name()).filter(|_| write.is_deletion())?;
    let version = |machine: &Machine| {
        (
            machine.metadata.uid().to_owned(),
            machine.metadata.resource_version.clone(),
        )
    };
    let deleted = version(old);
    let (_, before) = write.moments.split_last()?;
    let is_same =
        |moment: &Moment| moment.machines.get(write.name()).map(|machine| version(machine)) == Some(deleted.clone());
    let text = || format!("machine {} is deleted, and it changed after it was read", write.name());
    (!before.iter().any(is_same)).then(text)
}

/// A ready machine is deleted although another outdated machine of its index, which is not ready,
/// can be deleted instead.
fn deleted_before_unready(write: &MachineWrite<'_>) -> Option<String> {
    let text = || {
        format!(
            "machine {} is ready and deleted before a machine of its index that is not ready",
            write.name()
        )
    };
    let has_other = |moment: &Moment| moment.unready_outdated(write.index()).is_some();
    (write.deletes_ready() && write.always(has_other)).then(text)
}
