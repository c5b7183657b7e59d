//! Conditions: the merge of computed conditions with stored conditions.
//!
//! A controller computes all of its conditions and merges them once. The transition time of a
//! condition moves only when its status changes. Conditions of other controllers are kept.

use jiff::Timestamp;

/// A condition that was computed, without its transition time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewCondition {
    /// The observation, in CamelCase.
    pub type_: &'static str,
    /// Whether the condition is true. A controller that does not know omits the condition.
    pub status: bool,
    /// The reason, in CamelCase. Programs may compare it.
    pub reason: String,
    /// An explanation for users; may be empty.
    pub message: String,
}

impl NewCondition {
    /// A condition.
    pub fn new(type_: &'static str, status: bool, reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            type_,
            status,
            reason: reason.into(),
            message: message.into(),
        }
    }

    /// The status as it is stored: `True` or `False`.
    pub fn status_text(&self) -> &'static str {
        if self.status { "True" } else { "False" }
    }
}

/// A condition as it is stored. Each API has a type of its own.
pub trait StoredCondition: Clone {
    /// The type of the condition.
    fn type_name(&self) -> &str;

    /// `True`, `False` or `Unknown`.
    fn status(&self) -> &str;

    /// When the status last changed; `None` if the object has no such time.
    fn last_transition_time(&self) -> Option<Timestamp>;

    /// The condition to store. `generation` is the generation of the object from which the
    /// condition was computed. An API whose conditions have no generation ignores it.
    fn stored(new: NewCondition, generation: Option<i64>, last_transition_time: Timestamp) -> Self;
}

/// The conditions to store, ordered by type. A new condition replaces the stored condition of its
/// type. Other stored conditions are kept.
pub fn merge_conditions<C: StoredCondition>(
    stored: &[C],
    new: Vec<NewCondition>,
    generation: Option<i64>,
    now: Timestamp,
) -> Vec<C> {
    let is_replaced = |condition: &C| new.iter().any(|one| one.type_ == condition.type_name());
    let mut merged: Vec<C> = stored
        .iter()
        .filter(|condition| !is_replaced(condition))
        .cloned()
        .collect();
    for condition in new {
        let before = stored
            .iter()
            .find(|before| before.type_name() == condition.type_)
            .filter(|before| before.status() == condition.status_text());
        let since = before.and_then(C::last_transition_time).unwrap_or(now);
        merged.push(C::stored(condition, generation, since));
    }
    merged.sort_by(|left, right| left.type_name().cmp(right.type_name()));
    merged
}

/// The conditions by which general tools such as Flux, Argo CD, and `kubectl wait` judge an object
/// (kstatus), computed from the other conditions of a control plane.
///
/// `Stalled`: it is degraded, so that only a user can continue. `Reconciling`: it progresses.
/// `Ready`: it is available and neither of both, and no read or write fails. Without the condition
/// `Available`, an object without a problem gets no `Ready`, because nothing tells its state.
pub fn standard_conditions(conditions: &[NewCondition]) -> Vec<NewCondition> {
    let find = |type_: &str| conditions.iter().find(|condition| condition.type_ == type_);
    let is_true = |type_: &str| find(type_).filter(|condition| condition.status);
    let derived = |type_: &'static str, from: Option<&NewCondition>, status: bool| match from {
        Some(from) => NewCondition::new(type_, status, from.reason.clone(), from.message.clone()),
        None => NewCondition::new(type_, status, "AsExpected", ""),
    };
    let degraded = is_true("Degraded");
    let progressing = is_true("Progressing").filter(|_| degraded.is_none());
    let available = find("Available");
    let unavailable = available.filter(|condition| !condition.status);
    let blocker = degraded.or_else(|| is_true("Error")).or(unavailable).or(progressing);
    let mut standard = vec![
        derived("Reconciling", progressing, progressing.is_some()),
        derived("Stalled", degraded, degraded.is_some()),
    ];
    if blocker.is_some() || available.is_some() {
        standard.push(derived("Ready", blocker, blocker.is_none()));
    }
    standard
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_ready_if_it_is_available_and_nothing_is_left_to_do() {
        let shown = |conditions: &[(&'static str, bool)]| -> Vec<String> {
            let conditions: Vec<NewCondition> = conditions
                .iter()
                .map(|(type_, status)| NewCondition::new(type_, *status, format!("{type_}{status}"), "m"))
                .collect();
            let standard = standard_conditions(&conditions).into_iter();
            standard
                .map(|one| format!("{}={} {}", one.type_, one.status, one.reason))
                .collect()
        };
        let all = |available, degraded, progressing, error| {
            shown(&[
                ("Available", available),
                ("Degraded", degraded),
                ("Progressing", progressing),
                ("Error", error),
            ])
        };
        assert_eq!(
            all(true, false, false, false),
            [
                "Reconciling=false AsExpected",
                "Stalled=false AsExpected",
                "Ready=true AsExpected"
            ]
        );
        assert_eq!(
            all(true, false, true, false),
            [
                "Reconciling=true Progressingtrue",
                "Stalled=false AsExpected",
                "Ready=false Progressingtrue"
            ]
        );
        assert_eq!(
            all(false, true, true, true),
            [
                "Reconciling=false AsExpected",
                "Stalled=true Degradedtrue",
                "Ready=false Degradedtrue"
            ]
        );
        assert_eq!(all(false, false, false, false)[2], "Ready=false Availablefalse");
        assert_eq!(all(true, false, false, true)[2], "Ready=false Errortrue");
        // An object that is being deleted has no availability.
        assert_eq!(shown(&[("Degraded", false), ("Progressing", false)]).len(), 2);
    }

    #[derive(Clone, Debug, PartialEq)]
    struct Toy(String, String, Option<Timestamp>);

    impl StoredCondition for Toy {
        fn type_name(&self) -> &str {
            &self.0
        }

        fn status(&self) -> &str {
            &self.1
        }

        fn last_transition_time(&self) -> Option<Timestamp> {
            self.2
        }

        fn stored(new: NewCondition, _generation: Option<i64>, last_transition_time: Timestamp) -> Self {
            let status = new.status_text().to_owned();
            Self(new.type_.to_owned(), status, Some(last_transition_time))
        }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn toy(type_: &str, status: &str, since: Option<i64>) -> Toy {
        Toy(type_.to_owned(), status.to_owned(), since.map(at))
    }

    #[test]
    fn a_transition_time_moves_only_with_the_status() {
        let stored = [
            toy("B", "True", Some(1)),
            toy("A", "True", Some(2)),
            toy("C", "True", None),
        ];
        let new = ["A", "C", "D"].map(|type_| NewCondition::new(type_, true, "R", ""));
        let new = [new.to_vec(), vec![NewCondition::new("B", false, "R", "")]].concat();
        let expected = [
            toy("A", "True", Some(2)),
            toy("B", "False", Some(9)),
            toy("C", "True", Some(9)),
            toy("D", "True", Some(9)),
        ];
        assert_eq!(merge_conditions(&stored, new, None, at(9)), expected);
    }

    #[test]
    fn conditions_of_other_controllers_are_kept() {
        let stored = [toy("Theirs", "Unknown", Some(1))];
        let merged = merge_conditions(&stored, vec![NewCondition::new("Ours", true, "R", "")], None, at(9));
        assert_eq!(
            merged,
            [toy("Ours", "True", Some(9)), toy("Theirs", "Unknown", Some(1))]
        );
    }
}
