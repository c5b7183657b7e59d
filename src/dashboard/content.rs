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
        let control_planes = others.map(|(_, report)| (report.summary().mood, report.subject()));
        let pairs = self
            .mirrored
            .iter()
            .map(|pair| (pair.mood, format!("{} {}", pair.kind, pair.name)));
        let others: Vec<(Mood, String)> = control_planes.chain(pairs).collect();
        let first = own.and_then(|own| self.reports.get(own)).map(|report| {
            let summary = report.summary();
            let text = format!("{}: {}", report.subject(), lower(&summary.title));
            Line {
                mood: summary.mood,
                text,
            }
        });
        let adjective = if first.is_some() { "other " } else { "" };
        first
            .into_iter()
            .chain((!others.is_empty()).then(|| counted(&others, adjective)))
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

/// The most objects that a sentence names.
const NAMED: usize = 3;

/// Which objects need a user, wait, or change.
fn counted(objects: &[(Mood, String)], adjective: &str) -> Line {
    let of = |wanted: Mood| -> Vec<&str> {
        let those = objects.iter().filter(|(mood, _)| *mood == wanted);
        those.map(|(_, name)| name.as_str()).collect()
    };
    // So many objects, with the verb for one and for several, and their names.
    let sentence = |names: &[&str], one: &str, several: &str| {
        let more = if names.len() > NAMED { ", …" } else { "" };
        let names_shown = names.iter().take(NAMED).copied().collect::<Vec<&str>>().join(", ");
        match names.len() {
            1 => format!("1 {adjective}object {one}: {names_shown}."),
            count => format!("{count} {adjective}objects {several}: {names_shown}{more}."),
        }
    };
    let (alarms, paused, busy) = (of(Mood::Alarm), of(Mood::Paused), of(Mood::Busy));
    let waiting = || sentence(&paused, "waits until you act", "wait until you act");
    let (mood, text) = if !alarms.is_empty() {
        let problems = sentence(&alarms, "has a problem", "have a problem");
        let text = if paused.is_empty() {
            problems
        } else {
            format!("{problems} {}", waiting())
        };
        (Mood::Alarm, text)
    } else if !paused.is_empty() {
        (Mood::Paused, format!("Nothing else is wrong. {}", waiting()))
    } else if !busy.is_empty() {
        let count = busy.len();
        let verb = if count == 1 { "object is" } else { "objects are" };
        (
            Mood::Busy,
            format!("No action is needed. {count} {adjective}{verb} in progress."),
        )
    } else {
        let count = objects.len();
        let verb = if count == 1 {
            "object is as it"
        } else {
            "objects are as they"
        };
        (
            Mood::Calm,
            format!("No action is needed. {count} {adjective}{verb} must be."),
        )
    };
    Line { mood, text }
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
        match self.migration.strip_prefix("stopped: ") {
            Some(reason) => reason,
            None => self.synchronized.strip_prefix("no: ").unwrap_or(&self.synchronized),
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
            (
                vec![&calm, &calm],
                Mood::Calm,
                "No action is needed. 2 objects are as they must be.",
            ),
            (
                vec![&calm, &busy],
                Mood::Busy,
                "No action is needed. 1 object is in progress.",
            ),
            (
                vec![&calm, &busy, &paused],
                Mood::Paused,
                "Nothing else is wrong. 1 object waits until you act: KubeadmControlPlane a.",
            ),
            (
                vec![&alarm, &alarm],
                Mood::Alarm,
                "2 objects have a problem: KubeadmControlPlane a, KubeadmControlPlane a.",
            ),
            (
                vec![&calm, &busy, &paused, &alarm],
                Mood::Alarm,
                "1 object has a problem: KubeadmControlPlane a. 1 object waits until you act: KubeadmControlPlane a.",
            ),
        ] {
            let text = text.to_owned();
            assert_eq!(content(&all).summary(), [Line { mood, text }]);
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
                (Mood::Alarm, "1 other object has a problem: MachinePool pool."),
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
