//! The table of gates: which kinds are judged, at which routes, and by whom.
//!
//! A new kind is one line in [`GATES`], its rule file in `cel::rules`, and its two routes in [`ROUTES`].

use std::collections::BTreeMap;

use json_patch::Patch;

use super::mirrored;
use super::request::{NoReview, Request};
use super::response::{Status, deny_status, encode};
use super::snapshot::{Snapshot, Source};
use crate::api::config_openshift_io::feature_gate::FeatureGate;
use crate::api::machine_openshift_io::{self, control_plane_machine_set};
use crate::authority;
use crate::authority::config::Config;
use crate::cel::rules::{self, Cases, Enforcer, RuleError, RuleFile, RuleSet, Scope};
use crate::cpms;
use crate::cpms::spec::Gates;
use crate::model::{Edit, Operation, RuleInfo, Verdict};

/// The two passes of admission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Before the schema is checked: fills in, and refuses what the schema would refuse with fewer words.
    Mutate,
    /// After the schema was checked: judges the result.
    Validate,
}

/// A path of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Where the API server sends reviews to.
    pub path: &'static str,
    /// Which pass this is.
    pub phase: Phase,
    /// API group of the resource.
    pub group: &'static str,
    /// Plurals of the resources.
    pub resources: &'static [&'static str],
    /// The subresources of which writes are judged too.
    pub subresources: &'static [&'static str],
}

/// Everything that is served. `webhooks/` registers these, and a test holds the two against each other.
pub const ROUTES: &[Route] = &[
    Route {
        path: "/mutate-machine-openshift-io-v1-controlplanemachineset",
        phase: Phase::Mutate,
        group: machine_openshift_io::GROUP,
        resources: &[control_plane_machine_set::PLURAL],
        subresources: &["scale"],
    },
    Route {
        path: "/validate-machine-openshift-io-v1-controlplanemachineset",
        phase: Phase::Validate,
        group: machine_openshift_io::GROUP,
        resources: &[control_plane_machine_set::PLURAL],
        subresources: &["scale"],
    },
    mirrored::MUTATE_MACHINE_API,
    mirrored::VALIDATE_MACHINE_API,
    mirrored::VALIDATE_CLUSTER_API,
    mirrored::VALIDATE_INFRASTRUCTURE,
];

/// What the judgement of an edit gave.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Refusals and warnings.
    pub verdict: Verdict,
    /// What is filled in; empty in the validating pass.
    pub patch: Option<Patch>,
}

/// A kind that is judged.
pub(super) struct Gate {
    pub(super) group: &'static str,
    pub(super) kind: &'static str,
    pub(super) resource: &'static str,
    pub(super) judge: fn(&Admission, &Gate, Phase, &Edit<'_>, &Snapshot) -> Outcome,
    /// Whether its rules read the status.
    pub(super) reads_status: bool,
}

const GATES: &[Gate] = &[Gate {
    group: machine_openshift_io::GROUP,
    kind: control_plane_machine_set::KIND,
    resource: control_plane_machine_set::PLURAL,
    judge: judge_control_plane_machine_set,
    reads_status: false,
}];

/// The rules in Rust, room by room.
const TABLES: &[fn() -> Vec<RuleInfo>] = &[cpms::rules::table, authority::rules::table];

fn gates() -> impl Iterator<Item = &'static Gate> {
    GATES.iter().chain(mirrored::GATES).chain(mirrored::CLUSTER_GATES)
}

fn gate(group: &str, kind: &str) -> Option<&'static Gate> {
    gates().find(|gate| gate.group == group && gate.kind == kind)
}

fn judge_control_plane_machine_set(
    admission: &Admission,
    _gate: &Gate,
    phase: Phase,
    edit: &Edit<'_>,
    snapshot: &Snapshot,
) -> Outcome {
    let lookup = lookup(admission, snapshot);
    match phase {
        Phase::Mutate => {
            let (verdict, patch) = cpms::rules::mutate(edit, &lookup, &admission.rules);
            Outcome { verdict, patch }
        }
        Phase::Validate => Outcome {
            verdict: cpms::rules::validate(edit, &lookup, &admission.rules),
            patch: None,
        },
    }
}

/// What the rules of a ControlPlaneMachineSet may look up.
fn lookup<'a>(admission: &'a Admission, snapshot: &'a Snapshot) -> cpms::rules::Lookup<'a> {
    cpms::rules::Lookup {
        machines: snapshot.machines.as_deref(),
        sets: snapshot.control_plane_machine_sets.as_deref(),
        parsed: &snapshot.parsed,
        infrastructure: snapshot.infrastructure.as_ref(),
        nodes: snapshot.nodes.as_ref(),
        cluster_operators: snapshot.cluster_operators.as_ref(),
        gates: admission.options.gates(snapshot.feature_gate.as_deref()),
        // A cluster without OpenShift's configuration has no FeatureGate, and the defaults are its gates.
        feature_gate_unknown: snapshot.feature_gate.is_none() && snapshot.source == Source::Files,
        namespace: &admission.options.namespace,
        wait_for_unknown: snapshot.source == Source::Cluster,
    }
}

/// What is configured of admission.
#[derive(Clone, Debug)]
pub struct Options {
    /// The namespace of the Machine API.
    pub namespace: String,
    /// Feature gates by name, over what the cluster says of them.
    pub feature_gates: BTreeMap<String, bool>,
    /// The version whose entry in the cluster's FeatureGate counts; empty for the first.
    pub release_version: String,
    /// Who may write what of the objects that exist in both APIs. Its namespace of the Machine API is the one above.
    pub authority: Config,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            namespace: machine_openshift_io::NAMESPACE.to_owned(),
            feature_gates: BTreeMap::new(),
            release_version: String::new(),
            authority: Config::default(),
        }
    }
}

impl Options {
    /// The gates of ControlPlaneMachineSets: by default, then by the cluster's FeatureGate, then by configuration.
    pub fn gates(&self, cluster: Option<&FeatureGate>) -> Gates {
        let mut gates = cluster.map_or_else(Gates::default, |gate| Gates::of(gate, &self.release_version));
        for (name, on) in [
            (Gates::NAME_PREFIX, &mut gates.name_prefix),
            (Gates::RECREATE, &mut gates.recreate),
        ] {
            if let Some(configured) = self.feature_gates.get(name) {
                *on = *configured;
            }
        }
        gates
    }
}

/// Rules that are ready to judge. Made once, shared by all requests.
#[derive(Debug)]
pub struct Admission {
    options: Options,
    files: Vec<RuleFile>,
    rules: RuleSet,
}

/// What the log and the metrics say of a review. No part of an object is in here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Uid of the review.
    pub uid: String,
    /// Kind of the object.
    pub kind: String,
    /// Namespace of the object.
    pub namespace: String,
    /// Name of the object.
    pub name: String,
    /// Who asked.
    pub user: String,
    /// What was to be done.
    pub operation: String,
    /// Whether nothing was to be stored.
    pub dry_run: bool,
    /// The verdict.
    pub allowed: bool,
    /// HTTP status code of a refusal; 200 otherwise.
    pub code: u16,
    /// Ids of the rules that refused.
    pub denied_by: Vec<String>,
    /// Ids of the rules that warned.
    pub warned_by: Vec<String>,
}

/// A review that was answered.
#[derive(Clone, Debug)]
pub struct Answer {
    /// What goes over the wire.
    pub body: Vec<u8>,
    /// What is logged and counted.
    pub record: Record,
}

impl Admission {
    /// Reads and compiles the rules.
    ///
    /// # Errors
    /// When a rule file is broken; a test makes sure that none of those that are built in is.
    pub fn new(mut options: Options) -> Result<Self, RuleError> {
        options.authority.machine_api_namespace.clone_from(&options.namespace);
        let mut files = rules::built_in()?;
        for file in &mut files {
            options.authority.configure(file);
            // Examples are for tests; a server would keep them for as long as it runs.
            for rule in &mut file.rules {
                rule.cases = Cases::default();
            }
        }
        let rules = RuleSet::compile(files.clone())?;
        Ok(Self { options, files, rules })
    }

    /// The rule files, as they were read, without the examples in them.
    pub fn files(&self) -> &[RuleFile] {
        &self.files
    }

    /// What is configured.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// The compiled rules.
    pub fn rule_set(&self) -> &RuleSet {
        &self.rules
    }

    /// Every rule of every kind, ordered by kind and id.
    pub fn table(&self) -> Vec<RuleInfo> {
        let mut table: Vec<RuleInfo> = TABLES.iter().flat_map(|table| table()).collect();
        for file in &self.files {
            let kind = match file.kinds().as_slice() {
                [(_, kind)] => (*kind).to_owned(),
                _ => mirrored::kinds_of(&file.name).to_owned(),
            };
            let compiled = file.kinds().first().map(|(group, kind)| format!("{kind}.{group}"));
            let compiled = self.rules.of_kind(&compiled.unwrap_or_default());
            table.extend(compiled.iter().map(|compiled| {
                let rule = &compiled.rule;
                let operations = match rule.scope {
                    Scope::Request => rule
                        .operations
                        .iter()
                        .filter_map(|word| Operation::parse(word))
                        .collect(),
                    Scope::Field if compiled.is_transition() => vec![Operation::Update],
                    Scope::Field => vec![Operation::Create, Operation::Update],
                };
                RuleInfo {
                    id: rule.id.clone(),
                    kind: kind.clone(),
                    path: rule.path.clone(),
                    message: rule.message.clone(),
                    operations,
                    enforced_by: rule
                        .enforced_by
                        .iter()
                        .map(|enforcer: &Enforcer| enforcer.as_str())
                        .collect(),
                }
            }));
        }
        table.sort_by(|left, right| (&left.kind, &left.id).cmp(&(&right.kind, &right.id)));
        table
    }

    /// Judges an edit of a kind; `None` for a kind that has no gate.
    pub fn judge(
        &self,
        phase: Phase,
        group: &str,
        kind: &str,
        edit: &Edit<'_>,
        snapshot: &Snapshot,
    ) -> Option<Outcome> {
        let gate = gate(group, kind)?;
        Some((gate.judge)(self, gate, phase, edit, snapshot))
    }

    /// Whether the rules of a kind read the status; `None` for a kind that has no gate.
    pub fn reads_status(&self, group: &str, kind: &str) -> Option<bool> {
        gate(group, kind).map(|gate| gate.reads_status)
    }

    /// The status of a refusal of an edit of a kind that has a gate.
    pub fn status(&self, group: &str, kind: &str, name: &str, verdict: &Verdict) -> Option<Status> {
        let gate = gate(group, kind)?;
        (!verdict.allowed()).then(|| deny_status(gate.group, gate.kind, gate.resource, name, &verdict.violations))
    }

    /// Answers a review that came in at a route.
    ///
    /// # Errors
    /// When the body is no review, so that there is nobody to answer to.
    pub fn answer(&self, route: &Route, body: &[u8], snapshot: &Snapshot) -> Result<Answer, NoReview> {
        let reads_status = gates()
            .any(|gate| gate.reads_status && gate.group == route.group && route.resources.contains(&gate.resource));
        let known = (route.resources == [control_plane_machine_set::PLURAL]).then(|| lookup(self, snapshot).stored());
        // Most edits are of the set that the caches hold.
        let request = Request::read(body, reads_status, known.flatten())?;
        let (outcome, status) = self.decide(route, &request, snapshot);
        let body = encode(&request.uid, status.as_ref(), &outcome.verdict, outcome.patch.as_ref());
        let ids = |rules: Vec<&String>| {
            let mut ids: Vec<String> = rules.into_iter().cloned().collect();
            ids.dedup();
            ids
        };
        let record = Record {
            uid: request.uid.into_owned(),
            kind: request.kind.kind.into_owned(),
            namespace: request.namespace.into_owned(),
            name: request.name.into_owned(),
            user: request.user.name,
            operation: request.operation.as_str().to_owned(),
            dry_run: request.dry_run,
            allowed: status.is_none(),
            code: status.as_ref().map_or(200, |status| status.code),
            denied_by: ids(outcome
                .verdict
                .violations
                .iter()
                .map(|violation| &violation.rule)
                .collect()),
            warned_by: ids(outcome.verdict.warnings.iter().map(|warning| &warning.rule).collect()),
        };
        Ok(Answer { body, record })
    }

    fn decide(&self, route: &Route, request: &Request<'_>, snapshot: &Snapshot) -> (Outcome, Option<Status>) {
        let served = route.group == request.group && route.resources.contains(&request.resource.as_ref());
        let gate = gates().find(|gate| gate.group == request.group && gate.resource == request.resource);
        let Some(gate) = gate.filter(|_| served) else {
            let message = format!(
                "{} judges {}.{}, not {}.{}: correct the rules of the webhook configuration",
                route.path,
                route.resources.join(", "),
                route.group,
                request.resource,
                request.group
            );
            return (Outcome::default(), Some(Status::plain(400, "BadRequest", message)));
        };
        let objects = match request.objects() {
            Ok(objects) => objects,
            Err(reason) => {
                let message = format!("the object in the review cannot be read: {reason}");
                return (Outcome::default(), Some(Status::plain(400, "BadRequest", message)));
            }
        };
        let edit = request.edit(objects);
        let outcome = (gate.judge)(self, gate, route.phase, &edit, snapshot);
        let status = self.status(gate.group, gate.kind, edit.name, &outcome.verdict);
        (outcome, status)
    }
}
