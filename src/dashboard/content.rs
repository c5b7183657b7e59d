//! What the whole page shows: the control planes, the objects of both APIs, and the events.

use super::report::{Mood, Report};
use super::summary::lower;

/// Everything that the page shows at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Content {
    /// The control planes, in the order of the page.
    pub reports: Vec<Report>,
    /// The objects that exist in both APIs.
    pub mirrored: Vec<Mirrored>,
    /// The events, the newest first.
    pub events: Vec<SeenEvent>,
    /// Why this state may be old: the cluster does not respond. `None` while it does.
    pub outdated: Option<String>,
    /// What could not be read or shown, in sentences.
    pub notes: Vec<String>,
    /// Why there is nothing to show yet.
    pub empty: Option<String>,
}

/// A sentence at the top of the page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// Whether a user must act.
    pub(super) mood: Mood,
    /// The sentence.
    pub(super) text: String,
    /// What needs no action; empty if there is nothing.
    pub(super) rest: String,
}

/// The kinds that manage the control plane of the cluster itself.
const OWN: [&str; 2] = ["ControlPlaneMachineSet", "ControlPlane"];

/// Whether the report is about the object that manages the control plane of the cluster itself.
pub(super) fn is_own(report: &Report) -> bool {
    OWN.contains(&report.kind.as_str()) && report.managed_by.is_none()
}

impl Content {
    /// The state of the control plane of the cluster, and of all other objects, in one sentence
    /// each. Nothing if the card of the only object says it.
    pub(super) fn summary(&self) -> Vec<Line> {
        if self.reports.len() + self.mirrored.len() < 2 {
            return Vec::new();
        }
        let own = self.reports.iter().position(is_own);
        let others = self
            .reports
            .iter()
            .enumerate()
            .filter(|(position, _)| Some(*position) != own);
        let control_planes = others.map(|(_, report)| Other {
            mood: report.summary().mood,
            subject: report.subject(),
        });
        let pairs = self.mirrored.iter().map(|pair| Other {
            mood: pair.mood,
            subject: format!("{} {}", pair.kind, pair.name),
        });
        let others: Vec<Other> = control_planes.chain(pairs).collect();
        let first = own.and_then(|own| self.reports.get(own)).map(|report| {
            let summary = report.summary();
            let text = format!("{}: {}", report.subject(), lower(&summary.title));
            Line {
                mood: summary.mood,
                text,
                rest: String::new(),
            }
        });
        let mood = first.as_ref().map(|line| line.mood);
        first
            .into_iter()
            .chain((!others.is_empty()).then(|| counted(&others, mood)))
            .collect()
    }

    /// Of a ControlPlaneMachineSet and a ControlPlane, one manages the machines. The other one
    /// names it, and shows no plan of its own.
    pub(crate) fn name_owners(&mut self) {
        let position = |kind: &str| self.reports.iter().position(|report| report.kind == kind);
        let (Some(set), Some(scaled)) = (position("ControlPlaneMachineSet"), position("ControlPlane")) else {
            return;
        };
        let is_active = self.reports.get(set).is_some_and(|set| set.active == Some(true));
        let (owner, other) = if is_active { (set, scaled) } else { (scaled, set) };
        let owner = self.reports.get(owner).map(Report::subject);
        if let (Some(owner), Some(other)) = (owner, self.reports.get_mut(other)) {
            other.leave_machines_to(owner);
        }
    }

    /// A page about one control plane.
    pub fn of(report: Report) -> Self {
        Self {
            reports: vec![report],
            ..Self::default()
        }
    }
}

/// An object that is not the control plane of the cluster itself.
struct Other {
    mood: Mood,
    subject: String,
}

/// The most objects that a sentence names.
const NAMED: usize = 3;

/// On which objects a user must act, and which change. `first` is the state of the control plane of
/// the cluster itself, if there is one.
fn counted(objects: &[Other], first: Option<Mood>) -> Line {
    let named = |mood: Mood| -> Option<String> {
        let names: Vec<&str> = objects
            .iter()
            .filter(|one| one.mood == mood)
            .map(|one| one.subject.as_str())
            .collect();
        let more = if names.len() > NAMED { ", …" } else { "" };
        let shown = names.iter().take(NAMED).copied().collect::<Vec<&str>>().join(", ");
        (!names.is_empty()).then(|| format!("{shown}{more}"))
    };
    let (alarms, paused, unused) = (named(Mood::Alarm), named(Mood::Paused), named(Mood::Unused));
    let mood = match (&alarms, &paused) {
        (Some(_), _) => Mood::Alarm,
        (None, Some(_)) => Mood::Paused,
        (None, None) if objects.iter().any(|one| one.mood == Mood::Busy) => Mood::Busy,
        (None, None) => Mood::Calm,
    };
    // A user reads the state of the control plane of the cluster first.
    let begins = match first {
        None => "",
        Some(Mood::Calm | Mood::Busy | Mood::Unused) => "No action is needed for the control plane. ",
        Some(Mood::Paused) => "The control plane can wait for you. ",
        Some(Mood::Alarm) => "You must act on the control plane. ",
    };
    let also = if first == Some(Mood::Alarm) { "also " } else { "" };
    let text = match (alarms, paused) {
        (Some(alarms), None) => format!("{begins}You must {also}act on {alarms}."),
        (Some(alarms), Some(paused)) => format!("{begins}You must {also}act on {alarms}. {paused} can wait for you."),
        (None, Some(paused)) => format!("{begins}Nothing else is wrong. {paused} can wait for you."),
        (None, None) => match first {
            Some(Mood::Alarm | Mood::Paused) => format!("{begins}No other object needs you."),
            _ => "No action is needed.".to_owned(),
        },
    };
    let busy = objects.iter().filter(|one| one.mood == Mood::Busy).count();
    let other = if first.is_some() { "other " } else { "" };
    let busy = match busy {
        0 => None,
        1 => Some(format!("1 {other}object is in progress.")),
        busy => Some(format!("{busy} {other}objects are in progress.")),
    };
    let unused = unused.map(|unused| format!("Not in use: {unused}."));
    let rest: Vec<String> = busy.into_iter().chain(unused).collect();
    Line {
        mood,
        text,
        rest: rest.join(" "),
    }
}

/// One of the two APIs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// `machine.openshift.io`.
    MachineApi,
    /// `cluster.x-k8s.io`.
    ClusterApi,
}

impl Side {
    /// The name of the API in a sentence.
    pub fn title(self) -> &'static str {
        match self {
            Self::MachineApi => "Machine API",
            Self::ClusterApi => "Cluster API",
        }
    }
}

/// The role of an object that exists in both APIs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Its API decides.
    Authoritative,
    /// It is a copy of the authoritative object.
    Mirror,
    /// A migration locks it; no user may change it.
    Locked,
    /// It does not exist.
    Absent,
}

impl Role {
    /// The role in words.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Authoritative => "authoritative",
            Self::Mirror => "mirror",
            Self::Locked => "locked",
            Self::Absent => "does not exist",
        }
    }
}

/// An object of the Machine API with its counterpart in Cluster API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mirrored {
    /// The kind in both APIs.
    pub kind: String,
    /// The name in both APIs.
    pub name: String,
    /// The API of the authoritative object; `None` while both objects are locked.
    pub authoritative: Option<Side>,
    /// Whether the object of Cluster API exists. The object of the Machine API always does.
    pub in_cluster_api: bool,
    /// Whether the mirror is synchronized, with the reason if it is not.
    pub synchronized: String,
    /// The state of the migration; empty if none is requested.
    pub migration: String,
    /// Whether a user must act.
    pub mood: Mood,
}

impl Mirrored {
    /// What is wrong with a pair that needs a user.
    pub(super) fn problem(&self) -> &str {
        if self.lacks_authoritative_object() {
            return "the authoritative object does not exist";
        }
        match self.migration.strip_prefix("stopped: ") {
            Some(reason) => reason,
            None => self.synchronized.strip_prefix("no: ").unwrap_or(&self.synchronized),
        }
    }

    fn lacks_authoritative_object(&self) -> bool {
        !self.in_cluster_api && self.authoritative == Some(Side::ClusterApi)
    }

    /// What a user must do for a pair that needs one.
    pub(super) fn action(&self) -> String {
        let object = match self.authoritative {
            Some(Side::MachineApi) => "the object of the Machine API",
            Some(Side::ClusterApi) => "the object of Cluster API",
            None => "one of the two objects",
        };
        if self.lacks_authoritative_object() {
            return String::from("Restore the object of Cluster API.");
        }
        match self.migration.starts_with("stopped: ") {
            true => String::from("Set status.synchronizedAPI to the API that was authoritative."),
            false => format!("Correct {object}."),
        }
    }

    /// The role of the object in one of the APIs.
    pub(super) fn role(&self, side: Side) -> Role {
        match self.authoritative {
            _ if side == Side::ClusterApi && !self.in_cluster_api => Role::Absent,
            None => Role::Locked,
            Some(authoritative) if authoritative == side => Role::Authoritative,
            Some(_) => Role::Mirror,
        }
    }
}

/// An event of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeenEvent {
    /// When it was last observed, as RFC 3339 text; empty if it is not known.
    pub time: String,
    /// Whether it is a warning.
    pub warning: bool,
    /// The kind and the name of the object.
    pub subject: String,
    /// The message, or the reason in words if there is no message.
    pub message: String,
    /// How often it was observed.
    pub count: u64,
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn content(fields: &[&Value]) -> Content {
        let reports = fields.iter().map(|fields| Report::of((*fields).clone(), None).unwrap());
        Content {
            reports: reports.collect(),
            ..Content::default()
        }
    }

    #[test]
    fn the_page_says_first_whether_a_user_must_act() {
        let of = |fields: Value| {
            let mut plan = json!({"set": "a", "kind": "KubeadmControlPlane"});
            json_patch::merge(&mut plan, &fields);
            plan
        };
        let calm = of(json!({}));
        let busy = of(json!({"waits": [{"for": "MachineReady", "message": "x"}]}));
        let paused = of(json!({"waits": [{"for": "Pause", "message": "x"}]}));
        let alarm = of(json!({"degraded": [{"reason": "X", "message": "x"}]}));
        assert_eq!(content(&[&calm]).summary(), []);
        for (all, mood, text) in [
            (vec![&calm, &calm], Mood::Calm, "No action is needed."),
            (vec![&calm, &busy], Mood::Busy, "No action is needed."),
            (
                vec![&calm, &busy, &paused],
                Mood::Paused,
                "Nothing else is wrong. KubeadmControlPlane a can wait for you.",
            ),
            (
                vec![&alarm, &alarm],
                Mood::Alarm,
                "You must act on KubeadmControlPlane a, KubeadmControlPlane a.",
            ),
            (
                vec![&calm, &busy, &paused, &alarm],
                Mood::Alarm,
                "You must act on KubeadmControlPlane a. KubeadmControlPlane a can wait for you.",
            ),
        ] {
            let text = text.to_owned();
            let rest = if all.contains(&&busy) {
                "1 object is in progress."
            } else {
                ""
            }
            .to_owned();
            assert_eq!(content(&all).summary(), [Line { mood, text, rest }]);
        }
    }

    #[test]
    fn the_control_plane_of_the_cluster_comes_before_all_other_objects() {
        let set = json!({"set": "cluster", "active": true, "waits": [{"for": "MachineReady", "message": "x"}]});
        let pool = json!({"set": "pool", "kind": "MachinePool", "degraded": [{"reason": "X", "message": "x"}]});
        let lines = content(&[&pool, &set]).summary();
        let lines: Vec<(Mood, &str)> = lines.iter().map(|line| (line.mood, line.text.as_str())).collect();
        assert_eq!(
            lines,
            [
                (
                    Mood::Busy,
                    "ControlPlaneMachineSet cluster: in progress: 0 of 0 up to date"
                ),
                (
                    Mood::Alarm,
                    "No action is needed for the control plane. You must act on MachinePool pool."
                ),
            ]
        );
    }

    #[test]
    fn only_the_object_that_manages_the_machines_has_a_plan() {
        let machines = json!([{"machines": [{"name": "m", "ready": true, "current": true}]}]);
        let set = |active: bool| json!({"set": "cluster", "active": active, "placement": machines});
        let scaled = json!({"set": "cluster", "kind": "ControlPlane", "placement": machines});
        for (active, owner) in [(true, "ControlPlaneMachineSet"), (false, "ControlPlane")] {
            let mut page = content(&[&set(active), &scaled]);
            page.name_owners();
            for report in &page.reports {
                assert_eq!(report.placement.is_empty(), report.kind != owner);
                let other = (report.kind != owner).then(|| format!("{owner} cluster"));
                assert_eq!(report.managed_by, other);
            }
        }
        let mut page = content(&[&set(false), &scaled]);
        page.name_owners();
        let title = page.reports[0].summary().title;
        assert_eq!(title, "Inactive: ControlPlane cluster manages the machines");
    }
}
