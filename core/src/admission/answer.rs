//! Answers an AdmissionReview that arrived at a route.

use std::collections::BTreeSet;

use super::gate::{Context, Outcome, Route};
use super::gates;
use super::judge::Admission;
use super::live::{LiveReads, ScaledRead};
use super::options::Enforcement;
use super::request::{NoReview, Request};
use super::response::{Status, deny_status, encode};
use super::snapshot::{Snapshot, Source};
use crate::model::{Verdict, Warning};

/// An answer.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The AdmissionReview as JSON.
    pub body: Vec<u8>,
    /// The data for the log and the metrics.
    pub record: Record,
    /// The objects to read from the API server before this answer may be sent. The review is then
    /// answered again with the results in the snapshot.
    pub live_reads: LiveReads,
}

/// The data of a review for the log and the metrics. It contains no part of an object except its
/// name and namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// The uid of the review.
    pub uid: String,
    /// The kind of the object.
    pub kind: String,
    /// The namespace of the object.
    pub namespace: String,
    /// The name of the object.
    pub name: String,
    /// The name of the user.
    pub user: String,
    /// The operation.
    pub operation: String,
    /// Whether the request will not be stored.
    pub dry_run: bool,
    /// Whether the edit is allowed.
    pub allowed: bool,
    /// The HTTP status code of a refusal; 200 if the edit is allowed.
    pub code: u16,
    /// The ids of the rules that refused the edit.
    pub denied_by: Vec<String>,
    /// The ids of the rules that warned.
    pub warned_by: Vec<String>,
}

impl Admission {
    /// Answers a review that arrived at a route.
    ///
    /// # Errors
    /// The body is not a review, so that there is no uid to answer with.
    pub fn answer(&self, route: &Route, body: &[u8], snapshot: &Snapshot) -> Result<Answer, NoReview> {
        let gated = |resource: &&str| gates::by_resource(route.group, resource);
        let reads_status = route
            .resources
            .iter()
            .filter_map(gated)
            .any(|gated| gated.gate.reads_status());
        let request = Request::read(body, reads_status)?;
        let (outcome, status) = self.decide(route, &request, snapshot);
        // A refusal that rests on a known object stays, whatever the reads would show.
        let (allowed, violations) = (status.is_none(), &outcome.verdict.violations);
        let may_change = allowed || !violations.is_empty() && violations.iter().all(|one| one.is_provisional);
        let is_first = snapshot.mirrors.live.is_empty() && snapshot.scaled.is_none();
        let reads_live = may_change && snapshot.source == Source::Cluster && is_first;
        let live_reads = if reads_live {
            self.live_reads(&request, snapshot)
        } else {
            LiveReads::default()
        };
        let (outcome, status) = match self.options().enforcement {
            Enforcement::Warn => as_warnings(outcome, status),
            Enforcement::Deny => (outcome, status),
        };
        let (allowed, violations) = (status.is_none(), &outcome.verdict.violations);
        let body = encode(&request.uid, status.as_ref(), &outcome.verdict, outcome.patch.as_ref());
        let warnings = &outcome.verdict.warnings;
        let record = Record {
            uid: request.uid,
            kind: request.kind.kind,
            namespace: request.namespace,
            name: request.name,
            user: request.user.name,
            operation: request.operation.as_str().to_owned(),
            dry_run: request.dry_run,
            allowed,
            code: status.as_ref().map_or(200, |status| status.code),
            denied_by: unique(violations.iter().map(|violation| &violation.rule)),
            warned_by: unique(warnings.iter().map(|warning| &warning.rule)),
        };
        Ok(Answer {
            body,
            record,
            live_reads,
        })
    }

    fn live_reads(&self, request: &Request, snapshot: &Snapshot) -> LiveReads {
        let gated = gates::by_resource(&request.group, &request.resource);
        let (Some(gated), Ok(objects)) = (gated, request.objects()) else {
            return LiveReads::default();
        };
        let edit = request.edit(objects);
        let context = Context {
            options: self.options(),
            rules: self.rule_set(),
            snapshot,
        };
        let is_scale = edit.subresource == "scale" && gated.gate.reads_scaled();
        LiveReads {
            pairs: gated.gate.live_reads(&gated.kind, &edit, &context),
            scaled: is_scale.then(|| ScaledRead {
                kind: gated.kind.clone(),
                namespace: edit.namespace.to_owned(),
                name: edit.name.to_owned(),
            }),
        }
    }

    fn decide(&self, route: &Route, request: &Request, snapshot: &Snapshot) -> (Outcome, Option<Status>) {
        let refused = |message: String| (Outcome::default(), Some(Status::plain(400, "BadRequest", message)));
        let served = route.group == request.group && route.resources.contains(&request.resource.as_str());
        let Some(gated) = gates::by_resource(&request.group, &request.resource).filter(|_| served) else {
            return refused(format!(
                "{} judges {}.{}, not {}.{}: correct the rules of the webhook configuration",
                route.path,
                route.resources.join(", "),
                route.group,
                request.resource,
                request.group
            ));
        };
        let objects = match request.objects() {
            Ok(objects) => objects,
            Err(reason) => return refused(format!("the object in the review cannot be read: {reason}")),
        };
        let edit = request.edit(objects);
        let outcome = self.judge_gated(route.phase, gated, &edit, snapshot);
        let violations = &outcome.verdict.violations;
        let status = (!violations.is_empty()).then(|| deny_status(&gated.kind, edit.name, violations));
        (outcome, status)
    }
}

/// Replaces violations by warnings. A request that cannot be read has no violations and stays
/// refused. The defaults of an object with a violation are not set, as if it was refused.
fn as_warnings(outcome: Outcome, status: Option<Status>) -> (Outcome, Option<Status>) {
    if outcome.verdict.violations.is_empty() {
        return (outcome, status);
    }
    let mut verdict = Verdict::default();
    for violation in &outcome.verdict.violations {
        verdict.warn(Warning::new(&violation.rule, format!("not enforced: {violation}")));
    }
    for warning in outcome.verdict.warnings {
        verdict.warn(warning);
    }
    let outcome = Outcome {
        verdict: verdict.finish(),
        patch: None,
    };
    (outcome, None)
}

/// Each id once, in the order of the first occurrences. The number of rules limits the length, and
/// not the number of violations.
fn unique<'a>(ids: impl Iterator<Item = &'a String>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    ids.filter(|id| seen.insert(*id)).cloned().collect()
}
