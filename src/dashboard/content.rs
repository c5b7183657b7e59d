//! What the whole page shows: the control planes, the objects of both APIs, and the events.

use super::report::{Mood, Report};

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

impl Content {
    /// Whether a user must act on anything of the page, in one sentence. `None` if one headline
    /// says it already.
    pub fn summary(&self) -> Option<(Mood, String)> {
        if self.reports.len() + self.mirrored.len() < 2 {
            return None;
        }
        let control_planes = self.reports.iter().map(|report| report.headline().0);
        let pairs = self.mirrored.iter().map(|pair| pair.mood);
        let moods: Vec<Mood> = control_planes.chain(pairs).collect();
        let count = |wanted: Mood| moods.iter().filter(|mood| **mood == wanted).count();
        Some(match (count(Mood::Alarm), count(Mood::Busy)) {
            (0, 0) => (Mood::Calm, String::from("No action is needed: nothing is left to do.")),
            (0, busy) => {
                let text = format!(
                    "No action is needed: {busy} of {} objects are in progress.",
                    moods.len()
                );
                (Mood::Busy, text)
            }
            (1, _) => (
                Mood::Alarm,
                String::from("1 object needs an action of a user. It is marked with !."),
            ),
            (alarms, _) => {
                let text = format!("{alarms} objects need an action of a user. They are marked with !.");
                (Mood::Alarm, text)
            }
        })
    }

    /// A page about one control plane.
    pub fn of(report: Report) -> Self {
        Self {
            reports: vec![report],
            ..Self::default()
        }
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
            Self::MachineApi => "the Machine API",
            Self::ClusterApi => "Cluster API",
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
    /// The state of the other object, or that it does not exist.
    pub mirror: String,
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
    /// The authoritative API in words.
    pub fn authority(&self) -> &'static str {
        self.authoritative.map_or("none while it migrates", Side::title)
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
