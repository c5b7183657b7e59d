//! Migration: a request for another API to lead is kept, and answered with what stands in its way.
//!
//! Source: the Converting Machine API to Cluster API enhancement, "Workflow extension".

use super::Judged;
use crate::authority::plan::{self, Facts, Step};
use crate::authority::spec::{Api, Decided, Kind, Observed, PairMember};
use crate::authority::state::Seen;
use crate::conversion::{self, ConversionIssue, Severity};
use serde_json::Value;

use crate::model::{Stored as _, Verdict, Violation, ViolationKind, Warning, is_same};

pub(super) const COUNTERPART: &str = "authority-migration-of-counterpart";
pub(super) const UNDECIDED: &str = "authority-migration-undecided";
pub(super) const OUTLOOK: &str = "authority-migration-outlook";
const PATH: &str = "spec.authoritativeAPI";
/// How many issues are named, so that the warnings fit into an answer.
const MOST: usize = 8;

pub(super) fn judge(judged: &Judged<'_>, verdict: &mut Verdict) {
    let (before, after) = (judged.edit.old, judged.edit.object);
    if is_same(
        before.and_then(|old| old.at(PATH)),
        after.and_then(|object| object.at(PATH)),
    ) {
        return;
    }
    let (Some(old), Some(new)) = (judged.before(), judged.after()) else {
        return;
    };
    let requested = judged.subject.api == Api::MachineApi
        && judged.edit.subresource.is_empty()
        && old.wanted() != new.wanted()
        && new.requested.is_some();
    if !requested || !verdict.allowed() {
        return;
    }
    let counterpart = judged.counterpart();
    judge_undecided(judged, old, counterpart, verdict);
    judge_counterpart(judged, old, counterpart, verdict);
    if !verdict.allowed() {
        return;
    }
    // What was decided stands in the status, which an edit of the object leaves alone.
    let asked = PairMember {
        requested: new.requested,
        generation: new.generation.or(old.generation),
        ..old.clone()
    };
    for text in outlook(judged, &asked, counterpart) {
        verdict.warn(Warning::new(OUTLOOK, text));
    }
}

/// Until the status says who leads, the spec does; so with it the lead would change hands at once, and nobody would have
/// stopped.
fn judge_undecided(judged: &Judged<'_>, old: &PairMember, counterpart: Seen<'_>, verdict: &mut Verdict) {
    if old.decided.is_some() {
        return;
    }
    match counterpart {
        Seen::Absent => {}
        Seen::Unknown => judged.unknown(verdict, UNDECIDED, PATH, Api::ClusterApi),
        Seen::There(_) => verdict.deny(
            Violation::new(
                UNDECIDED,
                PATH,
                ViolationKind::Forbidden,
                format!(
                    "{} exists, and it is not decided yet who leads: without a hand-over, both APIs would act on one instance",
                    judged.title(Api::ClusterApi)
                ),
            )
            .advice("wait until status.authoritativeAPI is set, then ask again"),
        ),
    }
}

fn judge_counterpart(judged: &Judged<'_>, old: &PairMember, counterpart: Seen<'_>, verdict: &mut Verdict) {
    let Seen::There(half) = counterpart else { return };
    let title = judged.title(Api::ClusterApi);
    let leads = old.lead() == Decided::Leads(Api::ClusterApi);
    let (why, advice) = if half.deleting {
        (format!("{title} is being deleted"), "wait until it is gone")
    } else if leads && judged.subject.kind == Kind::Machine && half.provisioned != Some(true) {
        (
            format!("{title} leads, and its instance is being made: two APIs at once could make two of them"),
            "wait until its status.initialization.infrastructureProvisioned is true",
        )
    } else {
        return;
    };
    verdict.deny(Violation::new(COUNTERPART, PATH, ViolationKind::Forbidden, why).advice(advice));
}

/// What stands in the way, most important first.
fn outlook(judged: &Judged<'_>, asked: &PairMember, counterpart: Seen<'_>) -> Vec<String> {
    let target = asked.wanted();
    let step = plan::next(&Facts::of(asked, counterpart.there()));
    if let Step::Cancel { back_to } | Step::PauseTarget { back_to } = step {
        return vec![format!(
            "the migration is cancelled: {} takes the lead back",
            back_to.title()
        )];
    }
    if let Step::Rest(_) = step {
        return Vec::new();
    }
    let mut texts = Vec::new();
    let (mut issues, unchecked) = issues(judged, target, counterpart);
    issues.sort();
    let blocking = issues.iter().any(|issue| issue.severity == Severity::Blocks);
    // One long list does not hide everything else: of each reason the first, and only then the others.
    let (mut told, mut others) = (Vec::<&ConversionIssue>::new(), Vec::new());
    for issue in &issues {
        let same = |first: &&ConversionIssue| first.severity == issue.severity && first.reason == issue.reason;
        if told.iter().any(same) { &mut others } else { &mut told }.push(issue);
    }
    told.extend(others);
    // An answer to the API server has room for so many.
    let most = if judged.lookup.wait_for_unknown {
        MOST
    } else {
        usize::MAX
    };
    let more = told.len().saturating_sub(most);
    told.truncate(most);
    told.sort();
    for issue in told {
        let verb = match issue.severity {
            Severity::Blocks => "cannot migrate",
            Severity::Loses => "will be lost",
        };
        texts.push(format!("{verb}: {}: {}; {}", issue.path, issue.reason, issue.way_out));
    }
    if more > 0 {
        texts.push(format!("and {more} more; capstan check names all of them"));
    }
    texts.extend(unchecked);
    texts.extend(synchronization(judged, asked, counterpart, step, blocking));
    if judged.subject.kind == Kind::MachineSet {
        texts.push(format!(
            "machines that exist keep the API that leads them; new ones are made by {}",
            target.title()
        ));
    }
    texts
}

/// What the target cannot say, and what could not be checked.
fn issues(judged: &Judged<'_>, target: Api, counterpart: Seen<'_>) -> (Vec<ConversionIssue>, Option<String>) {
    if target == Api::ClusterApi {
        let Some(object) = judged.edit.object else {
            return (Vec::new(), None);
        };
        let mut issues = conversion::issues(object);
        let unchecked = disagreements(judged, object, counterpart, &mut issues);
        return (issues, unchecked);
    }
    let half = match counterpart {
        Seen::There(half) => half,
        Seen::Absent => return (Vec::new(), None),
        Seen::Unknown => {
            let text = format!(
                "not checked: {} is not known, and what it says has to be said again",
                judged.title(Api::ClusterApi)
            );
            return (Vec::new(), Some(text));
        }
    };
    let mut issues = half.to_convert().as_ref().map(conversion::issues).unwrap_or_default();
    let mut unchecked = None;
    match judged.lookup.mirrors.infrastructure_of(half) {
        Seen::There(infrastructure) => {
            let found = infrastructure.to_convert().as_ref().map(conversion::issues);
            let owner = half.infrastructure.as_ref().map(|(kind, _)| kind.as_str());
            // The path is that of another object: say of which.
            issues.extend(found.unwrap_or_default().into_iter().map(|issue| ConversionIssue {
                path: format!("{} {}", owner.unwrap_or_default(), issue.path).as_str().into(),
                ..issue
            }));
        }
        Seen::Absent | Seen::Unknown => {
            if let Some((kind, name)) = &half.infrastructure {
                unchecked = Some(format!("not checked: {kind} {name} is not known"));
            }
        }
    }
    (issues, unchecked)
}

/// What the cluster says for all machines, and this object otherwise; what could not be checked.
fn disagreements(
    judged: &Judged<'_>,
    object: &Value,
    counterpart: Seen<'_>,
    issues: &mut Vec<ConversionIssue>,
) -> Option<String> {
    let kind = conversion::cluster_of(object)?;
    let name = counterpart.there().and_then(|half| half.cluster.as_deref());
    match judged.lookup.mirrors.infrastructure_cluster(kind, name) {
        Seen::There(cluster) => {
            let cluster = cluster.to_convert().unwrap_or_default();
            issues.extend(conversion::disagreements(object, &cluster));
            None
        }
        Seen::Absent => Some(format!(
            "not checked: there is no one {kind} to compare with in {}",
            judged.lookup.config.cluster_api_namespace
        )),
        Seen::Unknown => Some(format!(
            "not checked: the {kind} is not known, and says some of it for all machines"
        )),
    }
}

/// Whether both halves are alike, and what is waited for.
fn synchronization(
    judged: &Judged<'_>,
    asked: &PairMember,
    counterpart: Seen<'_>,
    step: Step,
    blocking: bool,
) -> Option<String> {
    let stands_in_the_way = asked.synchronized.as_ref().is_some_and(|condition| !condition.holds());
    if counterpart == Seen::Absent && !stands_in_the_way {
        let title = judged.title(Api::ClusterApi);
        return Some(format!(
            "{title} does not exist yet: it is made before the lead changes"
        ));
    }
    match &asked.synchronized {
        Some(condition) if condition.holds() => matches!(step, Step::PauseSource { .. })
            .then(|| format!("a hand-over to {} is under way", asked.wanted().title())),
        Some(Observed {
            status,
            reason,
            message,
        }) => Some(format!(
            "the lead changes only once both are alike; the condition Synchronized is {status}: {reason}: {message}"
        )),
        None if blocking => None,
        None => Some(String::from(
            "the lead changes only once both are alike; there is no condition Synchronized yet",
        )),
    }
}
