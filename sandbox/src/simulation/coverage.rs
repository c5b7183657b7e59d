//! The branches of core's decisions that schedules reach, and the page that lists them by scenario.
//!
//! A branch is known by what only it writes: the text of an event, or the reason of a condition. So
//! core marks nothing for the simulation, and a branch counts only if the controller acted on it.

mod branches;
mod page;

pub use branches::{BRANCHES, Branch, Sign, UNREACHED};
pub use page::{Matrix, SEEDS, matrix};

use capstan_core::api::meta::Condition;

/// The branches that an event shows.
pub(crate) fn of_event<'a>(reason: &'a str, message: &'a str) -> impl Iterator<Item = &'static str> + 'a {
    let shows = move |branch: &&Branch| match branch.sign {
        Sign::Event(wanted, text) => wanted == reason && message.contains(text),
        Sign::Condition(..) => false,
    };
    BRANCHES.iter().filter(shows).map(|branch| branch.id)
}

/// The branches that conditions show.
pub(crate) fn of_conditions(conditions: &[Condition]) -> impl Iterator<Item = &'static str> + '_ {
    let shows = |branch: &&Branch| match branch.sign {
        Sign::Condition(type_, status, reason) => conditions
            .iter()
            .any(|there| there.type_ == type_ && there.status == status && there.reason == reason),
        Sign::Event(..) => false,
    };
    BRANCHES.iter().filter(shows).map(|branch| branch.id)
}
