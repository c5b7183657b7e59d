//! The exemptions: what an invariant allows that it would otherwise forbid.
//!
//! An exemption must describe one situation, and must end with it. Each run notes which exemptions
//! applied, so that an exemption which excuses too much is seen.

/// An exemption of an invariant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exemption {
    /// The id.
    pub id: &'static str,
    /// The id of the invariant.
    pub invariant: &'static str,
    /// When the exemption applies.
    pub text: &'static str,
    /// When it ends.
    pub end: &'static str,
}

/// All exemptions.
pub const EXEMPTIONS: [Exemption; 7] = [
    Exemption {
        id: "born-late",
        invariant: "C6",
        text: "the garbage collector deletes a machine whose creation arrived when its set was gone",
        end: "when the machine is gone",
    },
    Exemption {
        id: "deleted-by-user",
        invariant: "C1",
        text: "a ready machine that a user deletes does not count",
        end: "when the machine is gone",
    },
    Exemption {
        id: "made-by-hand",
        invariant: "C1",
        text: "a machine that a user creates during the request, or under OnDelete, does not count",
        end: "with the request; under OnDelete, when the machine is gone",
    },
    Exemption {
        id: "node-down",
        invariant: "C12",
        text: "a member may be missing while the node of a machine is down",
        end: "when the node is up",
    },
    Exemption {
        id: "rezoned",
        invariant: "C8",
        text: "the zones may be uneven after a user changed the failure domains",
        end: "when the zones are even",
    },
    Exemption {
        id: "unhooked",
        invariant: "C12",
        text: "a member may be missing after a user removed a lifecycle hook",
        end: "when the hook is restored; or when the machine is gone, and as many members as wanted vote and are healthy",
    },
    Exemption {
        id: "vanished",
        invariant: "C12",
        text: "a member may be missing after an instance disappeared",
        end: "when as many members as wanted vote and are healthy",
    },
];
