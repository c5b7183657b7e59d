//! What a bug changes besides reads and writes.

use crate::api::registration::OUT_OF_REACH;
use crate::simulation::actors::foreign_webhook::POLICY;
use crate::simulation::engine::port::Call;
use crate::simulation::machine_api::kinds::{MACHINE, SET};

use super::catalogue::Mutant;

impl Mutant {
    /// Whether no event is published.
    pub(crate) fn is_silent(self) -> bool {
        self == Self::Silent
    }

    /// Whether the controller forgets its writes at the end of a reconcile.
    pub(crate) fn forgets(self) -> bool {
        matches!(self, Self::BehindDuplicates | Self::SyncTimeout)
    }

    /// Whether every replica leads, whichever holds the Lease.
    pub(crate) fn always_leads(self) -> bool {
        self == Self::OverlappingLeaders
    }

    /// Whether events name another machine than the one that was created. This is a consequence of
    /// how the bug is seeded, and not part of the bug.
    pub(crate) fn misnames(self) -> bool {
        self.uses_random_names() || matches!(self, Self::NextIndex | Self::NameReused | Self::IndexSharedFirst)
    }

    /// Whether the etcd operator counts learners as voters.
    pub(crate) fn counts_learners(self) -> bool {
        self == Self::LearnersCounted
    }

    /// Whether the controller gives up for ever after this refusal of a call.
    pub(crate) fn is_final(self, call: &Call, refusal: &kube::core::Status) -> bool {
        match self {
            Self::WebhookFinal => refusal.message.contains(OUT_OF_REACH),
            Self::DenialFinal => refusal.code == 403 && self.gives_up(call),
            Self::RefusalFinal => refusal.message.contains(POLICY) && self.gives_up(call),
            Self::RefusedLabelBlocks => {
                let is_patch = matches!(call, Call::Patch { key, status: false, .. } if key.kind == MACHINE);
                is_patch && refusal.message.contains(POLICY)
            }
            _ => false,
        }
    }

    /// Whether a call is not made any more once the controller has given up.
    pub(crate) fn gives_up(self, call: &Call) -> bool {
        match self {
            Self::WebhookFinal => matches!(call, Call::Patch { key, status: false, .. } if key.kind == SET),
            Self::DenialFinal | Self::RefusalFinal | Self::RefusedLabelBlocks => {
                matches!(call, Call::Create(key, _) if key.kind == MACHINE)
            }
            _ => false,
        }
    }

    /// Whether the caches answer a call that should read live.
    pub(super) fn trusts_caches(self, call: &Call) -> bool {
        let lists_machines = matches!(call, Call::List { all, .. } if all.kind == MACHINE);
        self == Self::BehindDuplicates || self == Self::SyncTimeout && lists_machines
    }

    /// Whether a new machine gets another name at every try.
    pub(super) fn uses_random_names(self) -> bool {
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
