//! The state of a control plane in plain words: what happens, why, and whether a user must act.
//!
//! The words come from the fields of the report: the reasons and waits of the plan. Nothing here
//! reads the text of a message.

use super::actions::action;
use super::report::{Condition, Mood, Placed, Progress, Reason, Report, Step, Wait, domain};
use super::words::{sentence, words};

/// What a user reads first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Summary {
    /// Whether a user must act.
    pub(super) mood: Mood,
    /// The state, in one line.
    pub(super) title: String,
    /// What the controller does or waits for now; empty if it does nothing.
    pub(super) now: String,
    /// What the user must do, one item for each action.
    pub(super) you: Vec<Item>,
}

/// An action of a user, or that none is needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Item {
    /// In a few words.
    pub(super) text: String,
    /// On which objects, and why; empty if the text says it.
    pub(super) details: String,
}

impl From<String> for Item {
    fn from(text: String) -> Self {
        let details = String::new();
        Self { text, details }
    }
}

impl Item {
    /// The action for a reason to stop. The short action of an Active set would mislead beside an
    /// Inactive one, which replaces nothing.
    fn of(reason: &Reason, is_inactive: bool) -> Self {
        match action(&reason.reason).filter(|_| !is_inactive) {
            Some(text) => Self {
                text: text.to_owned(),
                details: sentence(&reason.message),
            },
            None => Self::from(sentence(&reason.message)),
        }
    }
}

const NOTHING: &str = "No action is needed for this object.";

/// The waits that end only when a user acts.
const FOR_A_USER: [&str; 6] = [
    "UserDelete",
    "OnDelete",
    "Pause",
    "Limit",
    "Acknowledgement",
    "CannotBeRemediated",
];

/// What ends the limit of a rollout.
const LIMITED: &str =
    "If the machines that are up to date work well, raise or remove the annotation capstan.dev/rollout-limit.";

/// The most actions of a user that the summary names.
const NAMED: usize = 5;

/// What happens next.
enum Next<'a> {
    Step(&'a Step),
    Wait(&'a Wait),
    /// Only a user can continue.
    User,
}

impl Report {
    /// The state in words.
    pub(super) fn summary(&self) -> Summary {
        if !self.degraded.is_empty() {
            return self.stopped();
        }
        if self.active == Some(false) && !self.deleting {
            return match &self.managed_by {
                Some(owner) => Summary {
                    mood: Mood::Calm,
                    title: format!("Inactive: {owner} manages the machines"),
                    now: String::new(),
                    you: vec![NOTHING.to_owned().into()],
                },
                None => self.inactive(),
            };
        }
        let mut summary = self.working();
        if let Some(item) = self.etcd_problem() {
            summary.title = format!("etcd has a problem; {}", lower(&summary.title));
            summary.mood = Mood::Alarm;
            // What was there says that no action is needed, unless only a user can continue.
            summary.you.retain(|known| !known.text.starts_with(NOTHING));
            summary.you.insert(0, item);
        }
        if self.deleting {
            summary.title = match self.kind.as_str() {
                "KubeadmControlPlane" => String::from("Being deleted, with its machines"),
                _ => String::from("Being deleted; its machines stay"),
            };
            summary.mood = Mood::Busy;
        }
        summary
    }

    fn stopped(&self) -> Summary {
        let reasons: Vec<String> = self
            .degraded
            .iter()
            .map(|reason| lower(&words(&reason.reason)))
            .collect();
        let reasons = reasons.join(", ");
        let step = self.next_of_machines();
        let is_inactive = self.active == Some(false);
        let you = self
            .degraded
            .iter()
            .map(|reason| Item::of(reason, is_inactive))
            .collect();
        if let Some(owner) = &self.managed_by {
            return Summary {
                mood: Mood::Unused,
                title: format!("Unused: {owner} manages the machines"),
                now: String::new(),
                you,
            };
        }
        Summary {
            mood: Mood::Alarm,
            // A fault of one machine does not stop the care of the others.
            title: match (step, is_inactive) {
                (_, true) => format!("Inactive, and you must act: {reasons}"),
                (Some(_), false) => format!("You must act: {reasons}"),
                (None, false) => format!("Stopped until you act: {reasons}"),
            },
            now: step.map_or_else(String::new, Step::sentence),
            you,
        }
    }

    /// An Inactive set, or a control plane of Cluster API that is paused.
    fn inactive(&self) -> Summary {
        let (title, mood, you) = match (self.kind.as_str(), self.activation.len()) {
            ("ControlPlaneMachineSet", 0) => (
                "Inactive: the controller does nothing",
                Mood::Calm,
                format!("{NOTHING} An activation (spec.state: Active) would change no machine."),
            ),
            ("ControlPlaneMachineSet", steps) => (
                "Inactive: the controller does nothing",
                Mood::Calm,
                format!(
                    "{NOTHING} An activation (spec.state: Active) would take {steps} steps, which are listed below."
                ),
            ),
            _ => (
                "Paused: the controller does nothing",
                Mood::Paused,
                String::from("To continue, remove the pause from the object and from its Cluster."),
            ),
        };
        Summary {
            mood,
            title: title.to_owned(),
            now: String::new(),
            you: vec![you.into()],
        }
    }

    fn working(&self) -> Summary {
        if let Some(lost) = self.lost_machine() {
            return lost;
        }
        let (updated, total) = self.up_to_date();
        let counted = match self.existing() {
            existing if (1..total).contains(&existing) => {
                format!("{updated} of {total} up to date, {existing} of {total} exist")
            }
            _ => format!("{updated} of {total} up to date"),
        };
        let continues = match self.kind.as_str() {
            "ControlPlaneMachineSet" => format!("{NOTHING} The controller continues by itself."),
            // The last line of the card says whether there is one.
            _ => format!("{NOTHING} If nothing changes for some minutes, check that its controller runs."),
        };
        let (mood, title, now, you) = match (self.what_is_next(), self.changes.is_empty()) {
            // The provider replaces the machines of some MachinePools without a step of the plan.
            (None, _) if updated < total => (Mood::Busy, format!("In progress: {counted}"), String::new(), continues),
            (None, _) => (
                Mood::Calm,
                String::from("All machines are up to date"),
                String::new(),
                NOTHING.to_owned(),
            ),
            (Some(Next::User), _) => (
                Mood::Paused,
                format!("{}: {counted}", self.stop_of_user()),
                String::new(),
                String::new(),
            ),
            (Some(next), no_change) => (
                Mood::Busy,
                match no_change {
                    true => format!("In progress: {counted}"),
                    false => format!("Rolling out a change: {counted}"),
                },
                match next {
                    Next::Step(step) => self.with_what_follows(step),
                    Next::Wait(wait) => wait.sentence(),
                    Next::User => String::new(),
                },
                continues,
            ),
        };
        Summary {
            you: match mood {
                Mood::Paused => self.of_user(),
                _ => vec![you.into()],
            },
            mood,
            title,
            now,
        }
    }

    /// A step. If it replaces nothing, the first later step that does follows.
    fn with_what_follows(&self, step: &Step) -> String {
        let changes_machines = |step: &&Step| matches!(step.action.as_str(), "create" | "delete");
        match self.rollout.iter().find(changes_machines) {
            Some(later) if step.action == "patch" => {
                format!("{}. After it, {}", step.sentence(), lower(&later.sentence()))
            }
            _ => step.sentence(),
        }
    }

    /// What the operator of etcd reports, if etcd is not well.
    fn etcd_problem(&self) -> Option<Item> {
        let is_problem = |one: &&Condition| match one.type_.as_str() {
            "Degraded" => one.status == "True",
            "Available" => one.status == "False",
            _ => false,
        };
        let problem = self.etcd_operator.iter().find(is_problem)?;
        Some(Item {
            text: String::from("Look at the ClusterOperator etcd."),
            details: sentence(&problem.message),
        })
    }

    /// A machine that had a Node and is not ready, while nothing is rolled out: the controller does
    /// not replace it. With the deadline of the rollout behind it, nothing else will happen.
    fn lost_machine(&self) -> Option<Summary> {
        let is_rolling = !self.rollout.is_empty() || !self.changes.is_empty();
        let wait = self
            .waits
            .first()
            .filter(|wait| wait.reason == "MachineReady" || wait.reason == "NodeReady")?;
        let has_node = self
            .machine(&wait.machine)
            .is_some_and(|machine| !machine.node.is_empty());
        let is_late = |one: &Condition| one.type_ == "Progressing" && one.reason == "ProgressDeadlineExceeded";
        let is_late = self.conditions.iter().any(is_late);
        if self.next_of_machines().is_some() || !has_node || (is_rolling && !is_late) {
            return None;
        }
        let (updated, total) = self.up_to_date();
        Some(Summary {
            mood: if is_late { Mood::Alarm } else { Mood::Paused },
            title: format!("Waits for machine {}: {updated} of {total} up to date", wait.machine),
            now: wait.sentence(),
            you: vec![Item {
                text: String::from("If the machine does not come back, delete it to have it replaced."),
                details: String::new(),
            }],
        })
    }

    /// Why only a user can continue.
    fn stop_of_user(&self) -> &'static str {
        let mut reasons = self.waits.iter().map(|wait| wait.reason.as_str());
        let reasons = reasons.by_ref().filter(|reason| FOR_A_USER.contains(reason));
        let mut reasons: Vec<&str> = reasons.collect();
        reasons.sort_unstable();
        reasons.dedup();
        match reasons.as_slice() {
            ["Limit"] => "Paused by the rollout limit",
            ["Pause"] => "Paused",
            ["UserDelete" | "OnDelete"] => "Waits until you delete machines",
            _ => "Continues when you act",
        }
    }

    /// What only a user can do, once each.
    fn of_user(&self) -> Vec<Item> {
        let for_a_user = |wait: &&Wait| FOR_A_USER.contains(&wait.reason.as_str());
        let waits = self.waits.iter().filter(for_a_user);
        let action = |wait: &Wait| match wait.reason.as_str() {
            "Limit" => Item {
                text: String::from(LIMITED),
                details: sentence(&wait.message),
            },
            _ => Item::from(sentence(&wait.message)),
        };
        let mut items: Vec<Item> = waits.map(action).collect();
        // All machines wait for the same edit.
        items.dedup_by(|later, first| later == first || later.text == LIMITED && first.text == LIMITED);
        if let Some(more) = items.len().checked_sub(NAMED + 1) {
            items.truncate(NAMED);
            items.push(Item::from(format!("And {} more, which are listed below", more + 1)));
        }
        items
    }

    /// A step that creates or deletes a machine.
    fn next_of_machines(&self) -> Option<&Step> {
        let creates_or_deletes = |step: &&Step| matches!(step.action.as_str(), "create" | "delete");
        self.next.iter().find(creates_or_deletes)
    }

    /// What a reader must know about: a machine that is created or deleted, then a wait, and a
    /// patch of metadata only if nothing else happens. `None` if nothing is left to do.
    fn what_is_next(&self) -> Option<Next<'_>> {
        let of_user = || (!self.of_user().is_empty()).then_some(Next::User);
        let of_machines = self.next_of_machines().map(Next::Step);
        let other = || self.waits.first().map(Next::Wait);
        let patch = || self.next.first().map(Next::Step);
        of_machines.or_else(of_user).or_else(other).or_else(patch)
    }

    /// How many machines exist and are not being deleted.
    fn existing(&self) -> usize {
        let machines = self.placement.iter().flat_map(|place| &place.machines);
        machines.filter(|machine| !machine.deleting).count()
    }

    /// How many machines or indexes are up to date, and how many there are.
    pub(super) fn up_to_date(&self) -> (usize, usize) {
        if let Some(Progress { updated, total }) = self.progress {
            return (updated, total);
        }
        let machines = self.placement.iter().flat_map(|place| &place.machines);
        let standing: Vec<&Placed> = machines.filter(|machine| !machine.deleting).collect();
        let updated = standing.iter().filter(|machine| machine.current && machine.ready);
        (updated.count(), standing.len())
    }
}

/// A text with a small first letter, unless it begins with an abbreviation.
pub(super) fn lower(text: &str) -> String {
    let mut letters = text.chars();
    match (letters.next(), letters.next()) {
        (Some(first), Some(second)) if second.is_lowercase() => {
            first.to_lowercase().chain([second]).chain(letters).collect()
        }
        _ => text.to_owned(),
    }
}

impl Wait {
    /// The message, which begins with "Waiting".
    pub(super) fn sentence(&self) -> String {
        match self.message.strip_prefix("waiting ") {
            Some(rest) => format!("Waiting {rest}"),
            None => format!("Waiting: {}", self.message),
        }
    }
}

impl Step {
    /// The machine or the etcd member, or else the object itself.
    pub(super) fn subject(&self) -> &str {
        match (self.machine.as_str(), self.member.as_str()) {
            ("", "") => "the object",
            ("", member) => member,
            (machine, _) => machine,
        }
    }

    /// The action with its machine, failure domain, and reason.
    fn sentence(&self) -> String {
        let place = match domain(&self.failure_domain).as_str() {
            "" => String::new(),
            place => format!(" in failure domain {place}"),
        };
        let because = match self.because.as_str() {
            "" => String::new(),
            reason => format!(", because {reason}"),
        };
        match self.action.as_str() {
            "patch" => format!(
                "The controller updates metadata of {}; this step replaces no machine",
                self.subject()
            ),
            "remove-member" => format!("The controller removes etcd member {}{because}", self.subject()),
            "remove-hook" => format!("The controller removes the hook of {}{because}", self.subject()),
            action => format!("The controller {action}s {}{place}{because}", self.subject()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn report(fields: &Value) -> Report {
        let mut plan = json!({"set": "cluster", "revision": null, "changes": [], "placement": []});
        json_patch::merge(&mut plan, fields);
        Report::of(plan, None).unwrap()
    }

    fn summary(fields: &Value) -> Summary {
        report(fields).summary()
    }

    #[test]
    fn what_a_user_must_do_comes_before_anything_else() {
        let step = json!([
            {"action": "patch", "machine": "m-1", "because": "a label is missing"},
            {"action": "create", "machine": "m-3", "because": "index 0 is empty", "failureDomain": "a"},
        ]);
        let wait = json!([{"for": "MachineReady", "message": "m-0 has no node"}]);
        let degraded = json!([{"reason": "UnmanagedNodes", "message": "remove the node x"}]);
        let all = summary(&json!({"next": step, "waits": wait, "degraded": degraded}));
        assert_eq!(
            (all.mood, all.title.as_str()),
            (Mood::Alarm, "You must act: unmanaged nodes")
        );
        assert_eq!(
            all.now,
            "The controller creates m-3 in failure domain a, because index 0 is empty"
        );
        let text = "Remove the nodes without a machine, or give them machines.".to_owned();
        let details = "Remove the node x".to_owned();
        assert_eq!(all.you, [Item { text, details }]);
        let stopped = summary(&json!({"waits": wait, "degraded": degraded}));
        assert_eq!(stopped.title, "Stopped until you act: unmanaged nodes");
        let change = json!([{"field": "instanceType", "old": "a", "new": "b"}]);
        let working = json!({"next": step, "waits": wait, "changes": change, "progress": {"updated": 1, "total": 3}});
        let working = summary(&working);
        assert_eq!(working.mood, Mood::Busy);
        assert_eq!(working.title, "Rolling out a change: 1 of 3 up to date");
        assert_eq!(
            working.now,
            "The controller creates m-3 in failure domain a, because index 0 is empty"
        );
        assert_eq!(summary(&json!({"waits": wait})).mood, Mood::Busy);
        assert_eq!(summary(&json!({})).title, "All machines are up to date");
        assert_eq!(summary(&json!({})).you, [Item::from(NOTHING.to_owned())]);
    }

    #[test]
    fn machines_that_are_not_up_to_date_are_not_called_up_to_date() {
        let outdated = json!([{"machines": [{"name": "m", "ready": true}]}]);
        let left = summary(&json!({"kind": "MachinePool", "placement": outdated}));
        assert_eq!(
            (left.mood, left.title.as_str()),
            (Mood::Busy, "In progress: 0 of 1 up to date")
        );
    }

    #[test]
    fn w81_a_machine_that_nothing_replaces_is_not_called_a_matter_of_the_controller() {
        let wait = json!([{"for": "MachineReady", "machine": "m-2", "message": "waiting for machine m-2"}]);
        let details = |node: &str| json!([{"name": "m-2", "node": node}]);
        let lost = summary(&json!({"waits": wait, "machines": details("n")}));
        assert_eq!(
            (lost.mood, lost.title.as_str()),
            (Mood::Paused, "Waits for machine m-2: 0 of 0 up to date")
        );
        assert!(lost.you[0].text.contains("delete it to have it replaced"), "{lost:?}");
        // A machine that boots, or whose replacement is a step, is a matter of the controller.
        let rollout = json!([{"action": "create", "machine": "m-3"}]);
        for busy in [
            json!({"waits": wait, "machines": details("")}),
            json!({"waits": wait, "machines": details("n"), "rollout": rollout}),
        ] {
            assert_eq!(summary(&busy).mood, Mood::Busy);
        }
        let late = json!([{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}]);
        let late = json!({"waits": wait, "machines": details("n"), "rollout": rollout, "conditions": late});
        assert_eq!(summary(&late).mood, Mood::Alarm);
    }

    #[test]
    fn w82_a_problem_of_etcd_is_in_the_first_line() {
        let operator =
            |type_: &str, status: &str| json!([{"type": type_, "status": status, "message": "1 of 3 members"}]);
        for (type_, status) in [("Degraded", "True"), ("Available", "False")] {
            let all = summary(&json!({"etcdOperator": operator(type_, status)}));
            assert_eq!(all.mood, Mood::Alarm);
            assert_eq!(all.title, "etcd has a problem; all machines are up to date");
            assert_eq!(all.you.len(), 1);
            assert_eq!(all.you[0].details, "1 of 3 members");
        }
        assert_eq!(
            summary(&json!({"etcdOperator": operator("Degraded", "False")})).mood,
            Mood::Calm
        );
    }

    #[test]
    fn v181_an_inactive_set_has_no_short_action_of_an_active_one() {
        let degraded = json!([{"reason": "FailedReplacement", "message": "Observed 1 failed machine(s)"}]);
        let inactive = summary(&json!({"active": false, "degraded": degraded}));
        assert_eq!(inactive.title, "Inactive, and you must act: failed replacement");
        assert_eq!(inactive.you, [Item::from("Observed 1 failed machine(s)".to_owned())]);
    }

    #[test]
    fn a_wait_is_more_important_than_a_patch_of_metadata() {
        let next = json!([{"action": "patch", "machine": "m-1", "because": "it has no owner"}]);
        let wait = json!([{"for": "MachineReady", "message": "waiting for m-0"}]);
        assert_eq!(summary(&json!({"next": next, "waits": wait})).now, "Waiting for m-0");
        assert_eq!(
            summary(&json!({"next": next})).now,
            "The controller updates metadata of m-1; this step replaces no machine"
        );
    }

    #[test]
    fn a_rollout_that_only_a_user_can_continue_is_not_called_busy() {
        for reason in FOR_A_USER.into_iter().filter(|reason| *reason != "Limit") {
            let waits = json!([{"for": "SurgeFree", "message": "x"}, {"for": reason, "message": "delete m-0"}]);
            let waiting = summary(&json!({"waits": waits}));
            assert_eq!(
                (waiting.mood, waiting.you),
                (Mood::Paused, vec![Item::from("Delete m-0".to_owned())])
            );
        }
    }

    #[test]
    fn each_action_of_a_user_is_named_once_and_of_many_the_first() {
        let wait = |number: usize| json!({"for": "UserDelete", "message": format!("delete m-{number}")});
        let waits: Vec<Value> = (0..20).map(wait).chain([wait(19)]).collect();
        let you = summary(&json!({"waits": waits})).you;
        assert_eq!(you.len(), 6);
        assert_eq!(
            (you[0].text.as_str(), you[5].text.as_str()),
            ("Delete m-0", "And 15 more, which are listed below")
        );
    }

    #[test]
    fn a_limited_rollout_names_the_annotation_once() {
        let wait = json!({"for": "Limit", "message": "m-0 is outdated; the rollout is limited"});
        let limited = summary(&json!({"waits": [wait, wait]}));
        let expected = Item {
            text: LIMITED.to_owned(),
            details: "m-0 is outdated; the rollout is limited".to_owned(),
        };
        assert_eq!((limited.mood, limited.you), (Mood::Paused, vec![expected]));
        assert_eq!(limited.title, "Paused by the rollout limit: 0 of 0 up to date");
    }

    #[test]
    fn inactive_and_paused_are_two_states() {
        let inactive = summary(&json!({"active": false, "activation": [{"action": "create"}]}));
        assert_eq!(inactive.mood, Mood::Calm);
        assert!(inactive.you[0].text.contains("would take 1 steps"), "{inactive:?}");
        let paused = summary(&json!({"active": false, "kind": "KubeadmControlPlane"}));
        assert_eq!(paused.mood, Mood::Paused);
    }

    #[test]
    fn a_deletion_says_what_becomes_of_the_machines() {
        let deleting = |kind: &str| summary(&json!({"deleting": true, "active": false, "kind": kind})).title;
        assert_eq!(deleting("ControlPlaneMachineSet"), "Being deleted; its machines stay");
        assert_eq!(deleting("KubeadmControlPlane"), "Being deleted, with its machines");
    }

    #[test]
    fn w30_a_wait_is_named_once() {
        for (message, shown) in [
            ("m-0 has no node", "Waiting: m-0 has no node"),
            ("waiting for m-0", "Waiting for m-0"),
        ] {
            let waits = json!([{"for": "Node", "message": message}]);
            assert_eq!(summary(&json!({"waits": waits})).now, shown);
        }
    }

    #[test]
    fn without_progress_the_machines_are_counted() {
        let machine = |current: bool, deleting: bool| json!({"name": "m", "ready": true, "current": current, "deleting": deleting});
        let machines = [machine(true, false), machine(false, false), machine(true, true)];
        let counted = report(&json!({"placement": [{"machines": machines}]})).up_to_date();
        assert_eq!(counted, (1, 2));
    }
}
