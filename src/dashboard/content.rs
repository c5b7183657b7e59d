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
    /// Whether a user must act on anything of the page, in one sentence. `None` if the card of the
    /// only object says it.
    pub(super) fn summary(&self) -> Option<(Mood, String)> {
        let control_planes = self.reports.iter().map(|report| report.summary().mood);
        let pairs = self.mirrored.iter().map(|pair| pair.mood);
        let moods: Vec<Mood> = control_planes.chain(pairs).collect();
        let all = moods.len();
        if all < 2 {
            return None;
        }
        let count = |wanted: Mood| moods.iter().filter(|mood| **mood == wanted).count();
        let (alarms, paused, busy) = (count(Mood::Alarm), count(Mood::Paused), count(Mood::Busy));
        Some(if alarms > 0 {
            let problems = format!("You must act: {} a problem.", objects(alarms, "has", "have"));
            let waiting = format!(" {} until you act.", objects(paused, "waits", "wait"));
            (Mood::Alarm, if paused > 0 { problems + &waiting } else { problems })
        } else if paused > 0 {
            (
                Mood::Paused,
                format!("Nothing is wrong. {} until you act.", objects(paused, "waits", "wait")),
            )
        } else if busy > 0 {
            (
                Mood::Busy,
                format!("No action is needed. {} in progress.", objects(busy, "is", "are")),
            )
        } else {
            (
                Mood::Calm,
                format!("No action is needed. All {all} objects are up to date."),
            )
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

/// So many objects, with the verb for one and for several.
fn objects(count: usize, one: &str, several: &str) -> String {
    match count {
        1 => format!("1 object {one}"),
        _ => format!("{count} objects {several}"),
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

    fn summary(fields: &[Value]) -> Option<(Mood, String)> {
        let reports = fields.iter().map(|fields| Report::of(fields.clone(), None).unwrap());
        let content = Content {
            reports: reports.collect(),
            ..Content::default()
        };
        content.summary()
    }

    #[test]
    fn the_page_says_first_whether_a_user_must_act() {
        let calm = json!({"set": "a"});
        let busy = json!({"set": "b", "waits": [{"for": "MachineReady", "message": "x"}]});
        let paused = json!({"set": "c", "waits": [{"for": "Pause", "message": "x"}]});
        let alarm = json!({"set": "d", "degraded": [{"reason": "X", "message": "x"}]});
        assert_eq!(summary(std::slice::from_ref(&calm)), None);
        for (all, mood, text) in [
            (vec![&calm, &calm], Mood::Calm, "No action is needed. All 2"),
            (
                vec![&calm, &busy],
                Mood::Busy,
                "No action is needed. 1 object is in progress.",
            ),
            (
                vec![&calm, &busy, &paused],
                Mood::Paused,
                "Nothing is wrong. 1 object waits until you act.",
            ),
            (
                vec![&alarm, &alarm],
                Mood::Alarm,
                "You must act: 2 objects have a problem.",
            ),
            (
                vec![&calm, &busy, &paused, &alarm],
                Mood::Alarm,
                "You must act: 1 object has a problem. 1 object waits until you act.",
            ),
        ] {
            let all: Vec<Value> = all.into_iter().cloned().collect();
            let (shown, sentence) = summary(&all).unwrap();
            assert!(shown == mood && sentence.starts_with(text), "{sentence}");
        }
    }
}
