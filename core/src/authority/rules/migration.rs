//! Judges a change of `spec.authoritativeAPI`, which requests a migration. The request is stored,
//! and the response says what prevents the migration.
//!
//! Source: the Converting Machine API to Cluster API enhancement, "Workflow extension".

use serde_json::Value;

use super::{Context, machine_api};
use crate::authority::plan::{self, Observed, Step};
use crate::authority::spec::{Api, Authority, Kind, ObservedCondition, PairMember};
use crate::authority::state::Counterpart;
use crate::conversion::{self, ConversionIssue, Severity};
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
    if !cancels(old, new) {
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
    for text in outlook(context, &requested, counterpart) {
        verdict.warn(Warning::new(OUTLOOK, text));
    }
}

/// Whether the request is for the API that is authoritative, or was before the migration began.
/// Such a request cancels a migration, and is possible at any time.
fn cancels(old: &PairMember, new: &PairMember) -> bool {
    let source = match old.status_authority {
        Some(Authority::Stable(api)) => Some(api),
        Some(Authority::Migrating) => old.synchronized_api,
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
fn outlook(context: &Context<'_>, requested: &PairMember, counterpart: Counterpart<'_>) -> Vec<String> {
    let target = requested.desired_api();
    let step = plan::next(&Observed::of(requested, counterpart.found()));
    if let Step::Cancel { back_to } | Step::PauseTarget { back_to } = step {
        return vec![format!(
            "the migration is cancelled: {} becomes authoritative again",
            back_to.title()
        )];
    }
    if let Step::Idle(_) = step {
        return Vec::new();
    }
    let (mut issues, unchecked) = issues(context, target, counterpart);
    issues.sort();
    let blocking = issues.iter().any(|issue| issue.severity == Severity::Blocks);
    let mut texts = issue_texts(context, &issues);
    texts.extend(unchecked);
    texts.extend(synchronization(context, requested, counterpart, step, blocking));
    if context.subject.kind == Kind::MachineSet {
        texts.push(format!(
            "existing Machines keep their authoritative API; {} creates new Machines",
            target.title()
        ));
    }
    texts
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
            format!("{effect}: {}: {}; {}", issue.path, issue.reason, issue.remedy)
        })
        .collect();
    if more > 0 {
        texts.push(format!("and {more} more; capstan check lists all of them"));
    }
    texts
}

/// What the target cannot express, and what could not be checked.
fn issues(context: &Context<'_>, target: Api, counterpart: Counterpart<'_>) -> (Vec<ConversionIssue>, Option<String>) {
    if target == Api::ClusterApi {
        let Some(object) = context.edit.object else {
            return (Vec::new(), None);
        };
        let mut issues = conversion::issues(object);
        let unchecked = disagreements(context, object, counterpart, &mut issues);
        return (issues, unchecked);
    }
    let member = match counterpart {
        Counterpart::Found(member) => member,
        Counterpart::Absent => return (Vec::new(), None),
        Counterpart::Unknown => {
            let text = format!("not checked: {} is not known", context.title(Api::ClusterApi));
            return (Vec::new(), Some(text));
        }
    };
    let mut issues = member.to_convert().as_ref().map(conversion::issues).unwrap_or_default();
    let mut unchecked = None;
    match context.lookup.mirrors.infrastructure_of(member, context.lookup.config) {
        Counterpart::Found(infrastructure) => {
            let found = infrastructure.to_convert().as_ref().map(conversion::issues);
            let kind = member.infrastructure.as_ref().map(|(kind, _)| kind.as_str());
            // The path belongs to the infrastructure object, so it starts with its kind.
            issues.extend(found.unwrap_or_default().into_iter().map(|issue| ConversionIssue {
                path: format!("{} {}", kind.unwrap_or_default(), issue.path).as_str().into(),
                ..issue
            }));
        }
        Counterpart::Absent | Counterpart::Unknown => {
            if let Some((kind, name)) = &member.infrastructure {
                unchecked = Some(format!("not checked: {kind} {name} is not known"));
            }
        }
    }
    (issues, unchecked)
}

/// Adds where the object differs from the infrastructure cluster, which sets some fields for all
/// machines. Returns what could not be checked.
fn disagreements(
    context: &Context<'_>,
    object: &Value,
    counterpart: Counterpart<'_>,
    issues: &mut Vec<ConversionIssue>,
) -> Option<String> {
    let kind = conversion::cluster_of(object)?;
    let name = counterpart.found().and_then(|member| member.cluster.as_deref());
    let (mirrors, config) = (context.lookup.mirrors, context.lookup.config);
    match mirrors.infrastructure_cluster(kind, name, config) {
        Counterpart::Found(cluster) => {
            let cluster = cluster.to_convert().unwrap_or_default();
            issues.extend(conversion::disagreements(object, &cluster));
            None
        }
        Counterpart::Absent => Some(format!(
            "not checked: namespace {} has no {kind} for this cluster",
            config.cluster_api_namespace
        )),
        Counterpart::Unknown => Some(format!(
            "not checked: the {kind}, which sets some fields for all machines, is not known"
        )),
    }
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
