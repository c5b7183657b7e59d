//! Rules: from the old object, the new one, its counterpart, the user and the configuration to a verdict.
//!
//! What CEL can state is judged by the rule files `authority-*.yaml`; here is what takes a look at the counterpart. Where
//! the lookup knows better than the object who leads, the rules in CEL are told so, and judge by that: a guard is written
//! once.
//!
//! Source: the Converting Machine API to Cluster API enhancement, "Admission of non-authoritative resources" and "Summary of
//! the rules outlined above"; the holes of today's policies.

mod changes;
mod creation;
mod deletion;
mod guards;
mod migration;

use std::cell::OnceCell;

use json_patch::Patch;
use serde_json::json;

use super::config::Config;
use super::spec::{Api, Decided, Kind, PairMember, requested};
use super::state::{Lead, Mirrors, Seen, leading_name};
use crate::cel::rules::RuleSet;
use crate::model::{Edit, Operation, RuleInfo, Verdict, Violation, ViolationKind, Warning};

/// What the rules may look up.
#[derive(Clone, Copy, Debug)]
pub struct Lookup<'a> {
    /// The halves of all objects.
    pub mirrors: &'a Mirrors,
    /// Where they live, and who may write what.
    pub config: &'a Config,
    /// Whether an API server asks. Then what is unknown will be known soon, and what needs it is refused until it is; and an
    /// answer has its limits. Otherwise what is unknown is warned of, and everything is said.
    pub wait_for_unknown: bool,
}

/// The kind that is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subject {
    /// Whose it is.
    pub api: Api,
    /// What is mirrored.
    pub kind: Kind,
    /// The kind as rule files call it: `Machine.cluster.x-k8s.io`.
    pub qualified: &'static str,
}

/// One edit, read.
struct Judged<'a> {
    subject: Subject,
    edit: &'a Edit<'a>,
    lookup: &'a Lookup<'a>,
    // Most rules look at a field or two of an object, and few at all that matters in it.
    old: OnceCell<PairMember>,
    new: OnceCell<PairMember>,
}

impl<'a> Judged<'a> {
    fn of(subject: Subject, edit: &'a Edit<'a>, lookup: &'a Lookup<'a>) -> Self {
        Self {
            subject,
            edit,
            lookup,
            old: OnceCell::new(),
            new: OnceCell::new(),
        }
    }

    /// The object as it is.
    fn before(&self) -> Option<&PairMember> {
        let old = self.edit.old?;
        Some(self.old.get_or_init(|| PairMember::read(old)))
    }

    /// The object as it would be.
    fn after(&self) -> Option<&PairMember> {
        let object = self.edit.object?;
        Some(self.new.get_or_init(|| PairMember::read(object)))
    }

    /// The object as it is, or as it would be created.
    fn half(&self) -> Option<&PairMember> {
        self.before().or_else(|| self.after())
    }

    /// The name whose authority counts.
    fn leading_name(&self) -> &str {
        let (name, kind) = (self.edit.name, self.subject.kind);
        if !name.is_empty() && kind.led_by() == kind {
            return name;
        }
        self.half().map_or(self.edit.name, |half| {
            // A name that the API server made up is in the object only.
            let name = if self.edit.name.is_empty() {
                half.name.as_str()
            } else {
                self.edit.name
            };
            leading_name(self.subject.kind, half, name)
        })
    }

    /// The half of this object in an API.
    fn find(&self, api: Api) -> Seen<'a> {
        let name = self.leading_name();
        if name.is_empty() {
            // The API server will make a name that nothing has yet.
            return Seen::Absent;
        }
        self.lookup
            .mirrors
            .find(api, self.subject.kind, name, self.lookup.config)
    }

    /// The other half.
    fn counterpart(&self) -> Seen<'a> {
        self.find(self.subject.api.other())
    }

    /// Who leads.
    fn lead(&self) -> Lead {
        match (self.subject.api, self.edit.old) {
            // The object itself is newer than any cache; but the object of a scale request is not the object itself.
            (Api::MachineApi, Some(old)) if self.edit.subresource != "scale" => Lead::Decided(Decided::of(old)),
            _ => Lead::of(self.find(Api::MachineApi)),
        }
    }

    fn syncs(&self) -> bool {
        self.lookup.config.syncs(self.edit.user)
    }

    fn controls(&self) -> bool {
        self.lookup.config.controls(self.subject.api, self.edit.user)
    }

    /// `Cluster API's Machine a` or `the Machine API's Machine a`.
    fn title(&self, api: Api) -> String {
        format!(
            "{}'s {} {}",
            api.title(),
            self.subject.kind.title(),
            self.leading_name()
        )
    }

    /// Says that the half of an API is not known: a refusal where it will be known soon, a warning otherwise.
    fn unknown(&self, verdict: &mut Verdict, rule: &str, path: &str, api: Api) {
        let what = format!("whether there is a {} of {}", self.subject.kind.title(), api.title());
        let what = format!("{what} called {}", self.leading_name());
        if self.lookup.wait_for_unknown {
            verdict.deny(
                Violation::new(
                    rule,
                    path,
                    ViolationKind::Forbidden,
                    format!("it is not known yet {what}"),
                )
                .advice("try again in a moment"),
            );
        } else {
            verdict.warn(Warning::new(
                rule,
                format!("{path}: not checked: it was not given {what}"),
            ));
        }
    }
}

/// The first pass: fills in who leads where nobody said so, and refuses a status that the creation of an object cannot have.
pub fn mutate(subject: Subject, edit: &Edit<'_>, lookup: &Lookup<'_>) -> (Verdict, Option<Patch>) {
    let mut verdict = Verdict::default();
    let guarded = edit.namespace == lookup.config.namespace(subject.api) && edit.subresource.is_empty();
    if subject.api != Api::MachineApi || !guarded {
        return (verdict, None);
    }
    let judged = Judged::of(subject, edit, lookup);
    creation::refuse_unknown_api(&judged, &mut verdict);
    let lead = match edit.operation {
        Operation::Create => {
            creation::refuse_forged_status(&judged, &mut verdict);
            creation::fill(&judged, &mut verdict)
        }
        // What was said stays said: a manifest without the field does not ask for anything.
        Operation::Update => match (edit.old, edit.object) {
            (Some(old), Some(new)) if requested(new).is_none() => requested(old),
            _ => None,
        },
        Operation::Delete | Operation::Connect => None,
    };
    let filled = lead.filter(|_| verdict.allowed() && edit.object.is_some_and(|object| object.get("spec").is_some()));
    let patch = filled.and_then(|api| {
        let operations = json!([{"op": "add", "path": "/spec/authoritativeAPI", "value": api.word()}]);
        serde_json::from_value(operations).ok()
    });
    (verdict.finish(), patch)
}

/// The second pass: judges the object as it would be stored.
pub fn validate(subject: Subject, edit: &Edit<'_>, lookup: &Lookup<'_>, rules: &RuleSet) -> Verdict {
    let mut verdict = Verdict::default();
    // Elsewhere nothing has a counterpart.
    if edit.namespace != lookup.config.namespace(subject.api) {
        return verdict;
    }
    let judged = Judged::of(subject, edit, lookup);
    match edit.operation {
        Operation::Create => {
            guards::judge(&judged, rules, &mut verdict);
            creation::judge(&judged, &mut verdict);
        }
        Operation::Update => {
            guards::judge(&judged, rules, &mut verdict);
            migration::judge(&judged, &mut verdict);
        }
        Operation::Delete => deletion::judge(&judged, &mut verdict),
        Operation::Connect => {}
    }
    if edit.operation != Operation::Delete && edit.subresource.is_empty() {
        creation::warn_of_the_inexpressible(&judged, &mut verdict);
    }
    if lookup.wait_for_unknown {
        verdict.finish()
    } else {
        verdict.finish_in_full()
    }
}

const MACHINE_API_KINDS: &str = "Machine, MachineSet, MachineHealthCheck";
const CLUSTER_API_KINDS: &str = "Machine, MachineSet, MachineHealthCheck of Cluster API";

/// The rules that take a look at the counterpart, as `capstan rules` lists them.
pub fn table() -> Vec<RuleInfo> {
    use Operation::{Create, Delete, Update};
    let machine_api = |id, path, operations: &[Operation], message| {
        RuleInfo::webhook(id, MACHINE_API_KINDS, path, operations, message)
    };
    let cluster_api = |id, path, operations: &[Operation], message| {
        RuleInfo::webhook(id, CLUSTER_API_KINDS, path, operations, message)
    };
    vec![
        machine_api(
            creation::BESIDE_CLUSTER_API,
            "spec.authoritativeAPI",
            &[Create],
            "a copy of an object of Cluster API is created with the authority ClusterAPI",
        ),
        machine_api(
            creation::API,
            "spec.authoritativeAPI",
            &[Create, Update],
            "the API that should lead is one of the two",
        ),
        machine_api(
            creation::STATUS,
            "status",
            &[Create],
            "an object is not created with a status that says who leads",
        ),
        cluster_api(
            creation::UNPAUSED,
            "metadata.annotations",
            &[Create],
            "a copy of an object that the Machine API leads is created paused",
        ),
        cluster_api(
            creation::INEXPRESSIBLE,
            "spec",
            &[Create, Update],
            "warns of what the Machine API's copy cannot say",
        ),
        machine_api(
            guards::LABEL,
            "metadata.labels",
            &[Update],
            "a label of a copy is as on the object that leads",
        ),
        machine_api(
            guards::ANNOTATION,
            "metadata.annotations",
            &[Update],
            "an annotation of a copy is as on the object that leads",
        ),
        cluster_api(
            guards::LEAD,
            "spec",
            &[Update],
            "an object is edited only where it is known who leads it",
        ),
        machine_api(
            migration::COUNTERPART,
            "spec.authoritativeAPI",
            &[Update],
            "an object whose other half is being made or deleted does not migrate",
        ),
        machine_api(
            migration::UNDECIDED,
            "spec.authoritativeAPI",
            &[Update],
            "an object that exists twice migrates only once it is decided who leads it",
        ),
        machine_api(
            migration::OUTLOOK,
            "spec.authoritativeAPI",
            &[Update],
            "warns of what stands in the way of a migration",
        ),
        machine_api(
            deletion::OUTLOOK,
            "",
            &[Delete],
            "warns of what a deletion takes with it and what it leaves",
        ),
        machine_api(
            deletion::COLLECTOR,
            "",
            &[Delete],
            "the garbage collector does not delete the machines of a copy of a set",
        ),
    ]
}
