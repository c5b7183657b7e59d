//! The checker is checked: known bugs, each from a real report, carried by the controller on purpose. The simulation has
//! to find every one of them.
//!
//! A bug is a lie at the seam between the controller that ships and the world: what the buggy controller overlooked is
//! hidden from it, what it did wrong is done in its name, what it forgot is taken from its memory. So the decisions stay
//! those of the shipped code, led astray in the way of the report.
//!
//! A bug counts as caught only by an invariant that says what is wrong with it, and only on a seed on which the
//! controller without the bug violates nothing.

mod catalogue;
mod hunt;
mod page;
mod reads;
mod writes;

pub use catalogue::{About, CATALOGUE, Mutant};
pub use hunt::{Caught, LIMIT, hunt};
pub use page::{page, row};

use capstan::controllers::Object;

use super::port::Question;

impl Mutant {
    /// Whether nothing is told.
    pub(super) fn is_silent(self) -> bool {
        self == Self::Silent
    }

    /// Whether what was written is forgotten at the end of a turn.
    pub(super) fn forgets(self) -> bool {
        matches!(self, Self::BehindDuplicates | Self::SyncTimeout)
    }

    /// Whether everybody leads, whoever holds the Lease.
    pub(super) fn always_leads(self) -> bool {
        self == Self::OverlappingLeaders
    }

    /// Whether what is told names another machine than the one that was made, which is no part of the bug.
    pub(super) fn misnames(self) -> bool {
        self.rolls_names() || self == Self::NextIndex
    }

    /// Whether the etcd operator counts members that do not vote.
    pub(super) fn counts_learners(self) -> bool {
        self == Self::LearnersCounted
    }

    /// Whether a refusal is taken for the last word.
    pub(super) fn is_final(self, refusal: &kube::core::Status) -> bool {
        match self {
            Self::WebhookFinal => refusal.message.contains(super::world::OUT_OF_REACH),
            _ => false,
        }
    }

    /// Whether a write is not tried any more once there was a last word.
    pub(super) fn gives_up(self, question: &Question) -> bool {
        match self {
            Self::WebhookFinal => matches!(question, Question::Patch(Object::Set(_), false, _)),
            Self::DenialFinal => matches!(question, Question::Create(Object::Machine(_), _)),
            _ => false,
        }
    }

    /// Whether a cache answers where the API server is to be asked.
    fn trusts_caches(self, question: &Question) -> bool {
        self == Self::BehindDuplicates || self == Self::SyncTimeout && matches!(question, Question::Machines)
    }

    /// Whether the name of a new machine is another at every try.
    fn rolls_names(self) -> bool {
        matches!(
            self,
            Self::RandomNames
                | Self::OverlappingLeaders
                | Self::UnreadyUncounted
                | Self::BehindDuplicates
                | Self::SyncTimeout
                | Self::FailureIgnored
        )
    }
}
