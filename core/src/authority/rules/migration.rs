//! Judges a change of `spec.authoritativeAPI`, which requests a migration. The request is stored,
//! and the response says what prevents the migration.
//!
//! Source: the Converting Machine API to Cluster API enhancement, "Workflow extension".

use serde_json::Value;

use super::{Context, machine_api};
use crate::authority::plan::{self, Observed, Step};
use crate::authority::recording;
use crate::authority::spec::{Api, Authority, Kind, ObservedCondition, PairMember};
use crate::authority::state::Counterpart;
use crate::conversion::{self, Issue as ConversionIssue, Lookup, Severity};
use crate::model::{Operation, RuleInfo, Stored as _, Verdict, Violation, ViolationKind, Warning, is_same};

const COUNTERPART: &str = "authority-migration-of-counterpart";
const UNDECIDED: &str = "authority-migration-undecided";
const OUTLOOK: &str = "authority-migration-outlook";
const PATH: &str = "spec.authoritativeAPI";
/// The largest number of conversion issues in a response to an API server.
const MOST: usize = 8;

/// The rules of this file.
pub(super) fn table() -> Vec<RuleInfo> {
    let update = &[Operation::Update];
    vec![
        machine_api(
            COUNTERPART,
            PATH,
            update,
            "must not change while the object in Cluster API is provisioning or deleting",
        ),
        machine_api(
            UNDECIDED,
            PATH,
            update,
            "must not change before status.authoritativeAPI is set, if the object exists in both APIs",
        ),
        machine_api(OUTLOOK, PATH, update, "warns of what prevents a migration"),
    ]
}

pub(super) fn validate(context: &Context<'_>, verdict: &mut Verdict) {
    let (before, after) = (context.edit.old, context.edit.object);
    if is_same(
        before.and_then(|old| old.at(PATH)),
        after.and_then(|object| object.at(PATH)),
    ) {
        return;
    }
    let (Some(old), Some(new)) = (context.before(), context.after()) else {
        return;
    };
    let requests_migration = context.subject.api == Api::MachineApi
        && context.edit.subresource.is_empty()
        && old.desired_api() != new.desired_api()
        && new.spec_authority.is_some();
    if !requests_migration || !verdict.allowed() {
        return;
    }
    let counterpart = context.counterpart();
    if !cancels(old, new, counterpart.found()) {
        refuse_without_status(context, old, counterpart, verdict);
        refuse_by_counterpart(context, old, counterpart, verdict);
    }
    if !verdict.allowed() {
        return;
    }
    // An update of the object does not change the status, so the old status applies.
    let requested = PairMember {
        spec_authority: new.spec_authority,
        generation: new.generation.or(old.generation),
        ..old.clone()
    };
    for warning in outlook(context, &requested, counterpart) {
        verdict.warn(warning);
    }
}

/// Whether the request is for the API that is authoritative, or was before the migration began.
/// Such a request cancels a migration, and is possible at any time.
fn cancels(old: &PairMember, new: &PairMember, counterpart: Option<&PairMember>) -> bool {
    let source = match old.status_authority {
        Some(Authority::Stable(api)) => Some(api),
        Some(Authority::Migrating) => old.synchronized_api.or_else(|| recording::source(old, counterpart)),
        None => None,
    };
    source == Some(new.desired_api())
}

/// Refuses the request while the status is empty and both objects exist. The spec determines the
/// authority until then, so the authority would change at once, without a migration.
fn refuse_without_status(context: &Context<'_>, old: &PairMember, counterpart: Counterpart<'_>, verdict: &mut Verdict) {
    if old.status_authority.is_some() {
        return;
    }
    match counterpart {
        Counterpart::Absent => {}
        Counterpart::Unknown => context.report_unknown(verdict, UNDECIDED, PATH, Api::ClusterApi),
        Counterpart::Found(_) => verdict.deny(
            Violation::new(
                UNDECIDED,
                PATH,
                ViolationKind::Forbidden,
                format!(
                    "must not change before status.authoritativeAPI is set: {} exists, and both APIs would act on one instance",
                    context.title(Api::ClusterApi)
                ),
            )
            .advice("wait until status.authoritativeAPI is set, then repeat the request"),
        ),
    }
}

/// Refuses the request while the object in Cluster API is being deleted, or is authoritative and
/// has no instance yet.
fn refuse_by_counterpart(context: &Context<'_>, old: &PairMember, counterpart: Counterpart<'_>, verdict: &mut Verdict) {
    let Counterpart::Found(member) = counterpart else {
        return;
    };
    let title = context.title(Api::ClusterApi);
    let authoritative = old.authority() == Authority::Stable(Api::ClusterApi);
    let (message, advice) = if member.deleting {
        (
            format!("must not change while {title} is being deleted"),
            "wait until it is deleted",
        )
    } else if authoritative && context.subject.kind == Kind::Machine && member.provisioned != Some(true) {
        (
            format!("must not change while the instance of {title} is being created: both APIs could create one"),
            "wait until its status.initialization.infrastructureProvisioned is true",
        )
    } else {
        return;
    };
    verdict.deny(Violation::new(COUNTERPART, PATH, ViolationKind::Forbidden, message).advice(advice));
}

/// The effect of the request and what prevents the migration, the most important first.
fn outlook(context: &Context<'_>, requested: &PairMember, counterpart: Counterpart<'_>) -> Vec<Warning> {
    let warning = |text: String| Warning::new(OUTLOOK, text);
    let target = requested.desired_api();
    let step = plan::next(&Observed::of(requested, counterpart.found()));
    if let Step::Cancel { back_to } | Step::PauseTarget { back_to } = step {
        let title = back_to.title();
        return vec![warning(format!(
            "the migration is cancelled: {title} becomes authoritative again"
        ))];
    }
    if let Step::Idle(_) = step {
        return Vec::new();
    }
    let (mut issues, unchecked) = issues(context, target, counterpart);
    issues.sort();
    let blocking = issues.iter().any(|issue| issue.severity == Severity::Blocks);
    let mut warnings: Vec<Warning> = issue_texts(context, &issues).into_iter().map(warning).collect();
    warnings.extend(unchecked.map(|text| Warning::not_judged(OUTLOOK, text)));
    let synchronization = synchronization(context, requested, counterpart, step, blocking);
    warnings.extend(synchronization.into_iter().map(warning));
    if context.subject.kind == Kind::MachineSet {
        warnings.push(warning(format!(
            "existing Machines keep their authoritative API; {} creates new Machines",
            target.title()
        )));
    }
    warnings
}

/// The conversion issues as texts. A response to an API server contains at most [`MOST`] of them.
fn issue_texts(context: &Context<'_>, issues: &[ConversionIssue]) -> Vec<String> {
    // The first issue of each reason comes before the others, so that many issues of one reason do
    // not hide the rest.
    let (mut first, mut others) = (Vec::<&ConversionIssue>::new(), Vec::new());
    for issue in issues {
        let same = |other: &&ConversionIssue| other.severity == issue.severity && other.reason == issue.reason;
        if first.iter().any(same) {
            &mut others
        } else {
            &mut first
        }
        .push(issue);
    }
    let mut listed = first;
    listed.extend(others);
    let most = if context.lookup.wait_for_unknown {
        MOST
    } else {
        usize::MAX
    };
    let more = listed.len().saturating_sub(most);
    listed.truncate(most);
    listed.sort();
    let mut texts: Vec<String> = listed
        .iter()
        .map(|issue| {
            let effect = match issue.severity {
                Severity::Blocks => "cannot migrate",
                Severity::Loses => "will be lost",
            };
            format!("{effect}: {}: {}; {}", issue.path, issue.reason, issue.way_out)
        })
        .collect();
    if more > 0 {
        texts.push(format!("and {more} more; capstan check lists all of them"));
    }
    texts
}

/// What the target cannot express, as the conversion reports it, and what could not be checked.
fn issues(context: &Context<'_>, target: Api, counterpart: Counterpart<'_>) -> (Vec<ConversionIssue>, Option<String>) {
    if target == Api::ClusterApi {
        return match context.edit.object {
            Some(object) => issues_of_machine_api(context, object, counterpart),
            None => (Vec::new(), None),
        };
    }
    let member = match counterpart {
        Counterpart::Found(member) => member,
        Counterpart::Absent => return (Vec::new(), None),
        Counterpart::Unknown => {
            let text = format!("not checked: {} is not known", context.title(Api::ClusterApi));
            return (Vec::new(), Some(text));
        }
    };
    let object = member.to_convert().unwrap_or_default();
    let infrastructure = context.lookup.mirrors.infrastructure_of(member, context.lookup.config);
    let infrastructure = infrastructure.found().and_then(|found| found.to_convert());
    let unchecked = match (&infrastructure, &member.infrastructure) {
        (None, Some((kind, name))) => Some(format!("not checked: {kind} {name} is not known")),
        _ => None,
    };
    let others = conversion::Context {
        infrastructure_machine: infrastructure.as_ref().map_or(Lookup::Unknown, Lookup::Found),
        ..conversion::Context::default()
    };
    let mut issues = conversion::convert(&object, &others).issues;
    issues.extend(conversion::hand_over(&object));
    (issues, unchecked)
}

/// What Cluster API cannot express, in comparison with the infrastructure cluster, which sets some
/// fields for all machines.
fn issues_of_machine_api(
    context: &Context<'_>,
    object: &Value,
    counterpart: Counterpart<'_>,
) -> (Vec<ConversionIssue>, Option<String>) {
    let mut cluster = None;
    let mut unchecked = None;
    if let Some(kind) = conversion::cluster_of(object) {
        let name = counterpart.found().and_then(|member| member.cluster.as_deref());
        let config = context.lookup.config;
        match context.lookup.mirrors.infrastructure_cluster(kind, name, config) {
            Counterpart::Found(found) => cluster = found.to_convert(),
            Counterpart::Absent => {
                unchecked = Some(format!(
                    "not checked: namespace {} has no {kind} for this cluster",
                    config.cluster_api_namespace
                ));
            }
            Counterpart::Unknown => {
                unchecked = Some(format!(
                    "not checked: the {kind}, which sets some fields for all machines, is not known"
                ));
            }
        }
    }
    let others = conversion::Context {
        infrastructure_cluster: cluster.as_ref().map_or(Lookup::Unknown, Lookup::Found),
        ..conversion::Context::default()
    };
    let mut issues = conversion::convert(object, &others).issues;
    issues.extend(conversion::hand_over(object));
    (issues, unchecked)
}

/// Whether the objects are synchronized, and what the migration waits for.
fn synchronization(
    context: &Context<'_>,
    requested: &PairMember,
    counterpart: Counterpart<'_>,
    step: Step,
    blocking: bool,
) -> Option<String> {
    let failing = requested
        .synchronized
        .as_ref()
        .is_some_and(|condition| !condition.is_true());
    if counterpart == Counterpart::Absent && !failing {
        let title = context.title(Api::ClusterApi);
        return Some(format!(
            "{title} does not exist yet; the sync controller creates it before the migration starts"
        ));
    }
    match &requested.synchronized {
        Some(condition) if condition.is_true() => matches!(step, Step::PauseSource { .. })
            .then(|| format!("the migration to {} is in progress", requested.desired_api().title())),
        Some(ObservedCondition {
            status,
            reason,
            message,
        }) => Some(format!(
            "the migration starts after synchronization; the condition Synchronized is {status}: {reason}: {message}"
        )),
        None if blocking => None,
        None => Some(String::from(
            "the migration starts after synchronization; the condition Synchronized is not set yet",
        )),
    }
}
