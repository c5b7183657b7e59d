//! The bugs: what each does, where it is from, and what has to find it.
//!
//! A report is one that the reliability page names, in the section given. Where the page names no report but a rule of a
//! design document, the text says so.

/// A bug that the controller carries on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mutant {
    /// Names of replacements are rolled anew at every try, so that a lost reply makes a second machine.
    RandomNames,
    /// Who leads is not asked before a step, and names are rolled: two processes make a machine each.
    OverlappingLeaders,
    /// A replacement that the cache does not show fills its index, and is not counted as surge.
    SurgeMiscounted,
    /// Machines that are going are not there any more: everything that was deleted at once is replaced at once.
    GoingUncounted,
    /// A pause that was asked for is not seen, and the rollout goes on.
    PauseIgnored,
    /// What a user changes while a rollout is under way is not seen: the first template is carried through.
    EditUnseen,
    /// Everything is decided on caches, nothing that was written is remembered, and names are rolled.
    BehindDuplicates,
    /// The wait for the cache after a write gives up at once, the cache is listed where the API server is to be, and names are rolled.
    SyncTimeout,
    /// A list of machines that comes back short is believed.
    ShortList,
    /// Machines that do not serve yet are not counted, and made once more.
    UnreadyUncounted,
    /// A deletion is no write that is waited for: a machine that is going is still taken for one that stays.
    DeletionUnseen,
    /// The hook of a machine is taken off before its deletion, so that its etcd member goes first.
    HookRemoved,
    /// Nothing is made while two machines are lost at once.
    TwoLost,
    /// A node is looked for under the name of its machine.
    NodeByName,
    /// A deletion that is due is taken for done, and never asked for.
    DeletionForgotten,
    /// What a user owns in the set is written over together with what the controller owns.
    TemplateOverwritten,
    /// What a machine was made with is made anew under it.
    EditedInPlace,
    /// A node that is not ready counts as ready, so the old machine goes too early.
    ReadinessIgnored,
    /// A replacement without a node counts as ready, so the old machine goes too early.
    NodeNotAwaited,
    /// Every replacement stands in the first failure domain.
    FirstDomain,
    /// Failure domains are mapped anew by their order when one is added.
    DomainChurn,
    /// A status that is due is taken for written, and never is.
    StatusForgotten,
    /// A generation is reported as observed before it was.
    GenerationAhead,
    /// A patch of a machine takes its finalizers away, so that its instance outlives it.
    FinalizersOverwritten,
    /// The etcd operator is not asked whether its members are healthy.
    EtcdIgnored,
    /// The status is written whether it differs or not.
    StatusAlwaysWritten,
    /// Nobody asks whether the other nodes and their etcd members are well before a machine goes.
    OthersIgnored,
    /// The finalizer of the set goes before the owner references.
    FinalizerFirst,
    /// Only selected machines are released from the set.
    SelectedReleased,
    /// Nothing holds the set until its machines are released.
    NoFinalizer,
    /// Machines are deleted where they are to be released.
    SetTakesMachines,
    /// Nodes that no machine claims are not looked at.
    StrangersIgnored,
    /// A replacement that failed does not stop the rollout: another is made, under another name.
    FailureIgnored,
    /// The state of the set is not looked at.
    InactiveActs,
    /// The strategy of the set is not looked at.
    OnDeleteRolls,
    /// The index of a replacement is the next free number.
    NextIndex,
    /// Of two machines of an index the newer one is deleted.
    NewestDeleted,
    /// What is done is not told.
    Silent,
    /// The time of a condition moves with every write.
    TransitionsMove,
    /// The generated set acts at once.
    GeneratesActive,
    /// What is generated is applied with force.
    GeneratorForces,
    /// What was generated last is not recognised, and applied again and again.
    GeneratorRestless,
    /// Every set is taken for a generated one.
    ForeignTaken,
    /// That the set is gone is not seen, and none is generated.
    DeletionOfSetUnseen,
    /// A generated set is never brought up to date.
    GeneratedOnce,
    /// A member of etcd that only learns is counted, and another is let go for it.
    LearnersCounted,
    /// The webhook is asked about Capstan's own writes too, and what it could not be asked about is not tried again.
    WebhookFinal,
    /// A machine that could not be made for want of permission is not tried again.
    DenialFinal,
    /// That the definition drops a field is not noticed, and the field is written again and again.
    DefinitionTrusted,
    /// Machines that Capstan did not make are not counted.
    HandmadeUncounted,
}

/// What is known of a bug.
#[derive(Clone, Copy, Debug)]
pub struct KnownBug {
    /// Which.
    pub mutant: Mutant,
    /// Its name.
    pub id: &'static str,
    /// What the controller does wrong.
    pub wrong: &'static str,
    /// The report.
    pub report: &'static str,
    /// Where the reliability page names it.
    pub section: &'static str,
    /// The scenario that meets it.
    pub scenario: &'static str,
    /// The invariants that say what is wrong with it. Caught by another it is caught by accident, which does not count.
    pub fits: &'static [&'static str],
}

/// All of them.
pub const CATALOGUE: &[KnownBug] = &[
    KnownBug {
        mutant: Mutant::RandomNames,
        id: "random-names",
        wrong: "Names of replacements are rolled anew at every try, so that a lost reply makes a second machine.",
        report: "CPMS operator: names by rand.String(5)",
        section: "1.4b.2",
        scenario: "requests",
        fits: &["G1", "G2", "ESR"],
    },
    KnownBug {
        mutant: Mutant::OverlappingLeaders,
        id: "overlapping-leaders",
        wrong: "Who leads is not asked before a step, and names are rolled: two processes make a machine each.",
        report: "CPMS operator: two overlapping leaders both pass check-then-create",
        section: "1.4b.2",
        scenario: "leaders",
        fits: &["G1", "G2", "C1", "C13"],
    },
    KnownBug {
        mutant: Mutant::SurgeMiscounted,
        id: "surge-miscounted",
        wrong: "A replacement that the cache does not show fills its index, and is not counted as surge.",
        report: "CPMS operator: surge 1 becomes 2 under a stale cache",
        section: "1.4b.1",
        scenario: "rollout",
        fits: &["C1", "C13"],
    },
    KnownBug {
        mutant: Mutant::GoingUncounted,
        id: "going-uncounted",
        wrong: "Machines that are going are not there any more: everything that was deleted at once is replaced at once.",
        report: "CPMS operator: no surge limit for machines that are deleted at once",
        section: "1.4b.3",
        scenario: "deletions",
        fits: &["C1", "C9", "C13", "G1", "G9"],
    },
    KnownBug {
        mutant: Mutant::PauseIgnored,
        id: "pause-ignored",
        wrong: "A pause that was asked for is not seen, and the rollout goes on.",
        report: "capi-operator: acts on a cached object that is not paused",
        section: "1.4b.4",
        scenario: "pauses",
        fits: &["P1"],
    },
    KnownBug {
        mutant: Mutant::EditUnseen,
        id: "edit-unseen",
        wrong: "What a user changes while a rollout is under way is not seen: the first template is carried through.",
        report: "capi-operator: the direction is not safe if a user aborts it half-way",
        section: "1.4b.5",
        scenario: "edits",
        fits: &["ESR", "G9", "C8"],
    },
    KnownBug {
        mutant: Mutant::BehindDuplicates,
        id: "behind-duplicates",
        wrong: "Everything is decided on caches, nothing that was written is remembered, and names are rolled.",
        report: "k0smotron #1534: one machine becomes six",
        section: "1.9 K8",
        scenario: "stale",
        fits: &["G1", "G2", "C1", "C13"],
    },
    KnownBug {
        mutant: Mutant::SyncTimeout,
        id: "sync-timeout",
        wrong: "The wait for the cache after a write gives up at once, the cache is listed where the API server is to be, and names are rolled.",
        report: "CAPI #13649: duplicates when the wait for the cache times out",
        section: "1.9",
        scenario: "stale",
        fits: &["G1", "G2", "C1", "C13"],
    },
    KnownBug {
        mutant: Mutant::ShortList,
        id: "short-list",
        wrong: "A list of machines that comes back short is believed.",
        report: "CAPI #3001: machines that are there are not listed, and made again",
        section: "1.9 K8",
        scenario: "rollout",
        fits: &["G9", "C1", "C9", "C13"],
    },
    KnownBug {
        mutant: Mutant::UnreadyUncounted,
        id: "unready-uncounted",
        wrong: "Machines that do not serve yet are not counted, and made once more.",
        report: "kubernetes #129795: extra replicas under overload",
        section: "1.4",
        scenario: "rollout",
        fits: &["G1", "G2", "G9", "C1", "C13"],
    },
    KnownBug {
        mutant: Mutant::DeletionUnseen,
        id: "deletion-unseen",
        wrong: "A deletion is no write that is waited for: a machine that is going is still taken for one that stays.",
        report: "CAPI (KEP-5647): deletes count as writes too",
        section: "1.4",
        scenario: "deletions",
        fits: &["G8", "ESR"],
    },
    KnownBug {
        mutant: Mutant::HookRemoved,
        id: "hook-removed",
        wrong: "The hook of a machine is taken off before its deletion, so that its etcd member goes first.",
        report: "CAPI #8877: the member is removed, then the machine",
        section: "1.9 K5, C10",
        scenario: "rollout",
        fits: &["C10"],
    },
    KnownBug {
        mutant: Mutant::TwoLost,
        id: "two-lost",
        wrong: "Nothing is made while two machines are lost at once.",
        report: "CAPI #10125: five machines that lose two never recover",
        section: "1.9",
        scenario: "deletions",
        fits: &["G8", "ESR"],
    },
    KnownBug {
        mutant: Mutant::NodeByName,
        id: "node-by-name",
        wrong: "A node is looked for under the name of its machine.",
        report: "CAPI #4239: a node has another name than its machine",
        section: "1.8 E",
        scenario: "machines",
        fits: &["ESR", "C2", "G9"],
    },
    KnownBug {
        mutant: Mutant::DeletionForgotten,
        id: "deletion-forgotten",
        wrong: "A deletion that is due is taken for done, and never asked for.",
        report: "CAPI #5483: a deletion that reaches nobody",
        section: "1.9 G7",
        scenario: "rollout",
        fits: &["ESR"],
    },
    KnownBug {
        mutant: Mutant::TemplateOverwritten,
        id: "template-overwritten",
        wrong: "What a user owns in the set is written over together with what the controller owns.",
        report: "CAPZ #3244: a field that somebody else manages is overwritten",
        section: "1.9 M4",
        scenario: "rollout",
        fits: &["G9"],
    },
    KnownBug {
        mutant: Mutant::EditedInPlace,
        id: "edited-in-place",
        wrong: "What a machine was made with is made anew under it.",
        report: "k0smotron #1623: what must never change is generated again",
        section: "1.9 K7",
        scenario: "rollout",
        fits: &["G9"],
    },
    KnownBug {
        mutant: Mutant::ReadinessIgnored,
        id: "readiness-ignored",
        wrong: "A node that is not ready counts as ready, so the old machine goes too early.",
        report: "OCPBUGS-7989: a machine is Ready before its node is",
        section: "1.9 C2",
        scenario: "rollout",
        fits: &["C2"],
    },
    KnownBug {
        mutant: Mutant::NodeNotAwaited,
        id: "node-not-awaited",
        wrong: "A replacement without a node counts as ready, so the old machine goes too early.",
        report: "OCPBUGS-7516: no node is waited for",
        section: "1.9 C2",
        scenario: "rollout",
        fits: &["C2"],
    },
    KnownBug {
        mutant: Mutant::FirstDomain,
        id: "first-domain",
        wrong: "Every replacement stands in the first failure domain.",
        report: "OCP 4.14: OnDelete replaces in a wrong failure domain",
        section: "1.9",
        scenario: "on-delete",
        fits: &["C8", "G9", "ESR"],
    },
    KnownBug {
        mutant: Mutant::DomainChurn,
        id: "domain-churn",
        wrong: "Failure domains are mapped anew by their order when one is added.",
        report: "OCP 4.14: a new failure domain churns the mapping",
        section: "1.9 C8",
        scenario: "edits",
        fits: &["C8", "G9", "ESR"],
    },
    KnownBug {
        mutant: Mutant::StatusForgotten,
        id: "status-forgotten",
        wrong: "A status that is due is taken for written, and never is.",
        report: "OCP 4.16: UnavailableReplicas says what is not",
        section: "1.9",
        scenario: "rollout",
        fits: &["ESR"],
    },
    KnownBug {
        mutant: Mutant::GenerationAhead,
        id: "generation-ahead",
        wrong: "A generation is reported as observed before it was.",
        report: "capi-operator #313: a generation is taken for synchronized",
        section: "1.7.7, G6",
        scenario: "rollout",
        fits: &["G6"],
    },
    KnownBug {
        mutant: Mutant::FinalizersOverwritten,
        id: "finalizers-overwritten",
        wrong: "A patch of a machine takes its finalizers away, so that its instance outlives it.",
        report: "outscale #543: 3,325 machines leaked",
        section: "1.9 G7",
        scenario: "rollout",
        fits: &["G7", "G8"],
    },
    KnownBug {
        mutant: Mutant::EtcdIgnored,
        id: "etcd-ignored",
        wrong: "The etcd operator is not asked whether its members are healthy.",
        report: "etcd-operator #923: deletions while members are not healthy",
        section: "1.9 C12",
        scenario: "etcd",
        fits: &["C12"],
    },
    KnownBug {
        mutant: Mutant::StatusAlwaysWritten,
        id: "status-always-written",
        wrong: "The status is written whether it differs or not.",
        report: "kubewarden adm-controller #645: ten million requests a day",
        section: "1.9 G4",
        scenario: "rollout",
        fits: &["G4", "ESR"],
    },
    KnownBug {
        mutant: Mutant::OthersIgnored,
        id: "others-ignored",
        wrong: "Nobody asks whether the other nodes and their etcd members are well before a machine goes.",
        report: "CAPI preflight: every machine has a healthy node",
        section: "1.7.3",
        scenario: "nodes",
        fits: &["C12", "C2"],
    },
    KnownBug {
        mutant: Mutant::FinalizerFirst,
        id: "finalizer-first",
        wrong: "The finalizer of the set goes before the owner references.",
        report: "CPMS operator: a set takes its machines with it",
        section: "1.9 C6",
        scenario: "set-deleted",
        fits: &["C6"],
    },
    KnownBug {
        mutant: Mutant::SelectedReleased,
        id: "selected-released",
        wrong: "Only selected machines are released from the set.",
        report: "CPMS operator: a deselected machine goes with the set",
        section: "1.9 C6",
        scenario: "set-deleted",
        fits: &["C6"],
    },
    KnownBug {
        mutant: Mutant::NoFinalizer,
        id: "no-finalizer",
        wrong: "Nothing holds the set until its machines are released.",
        report: "CPMS operator: garbage collection with a stale graph",
        section: "1.9 C6",
        scenario: "set-deleted",
        fits: &["C6"],
    },
    KnownBug {
        mutant: Mutant::SetTakesMachines,
        id: "set-takes-machines",
        wrong: "Machines are deleted where they are to be released.",
        report: "CPMS operator: the set is deleted, and its machines with it",
        section: "1.9 C6",
        scenario: "set-deleted",
        fits: &["C6", "C4", "G9"],
    },
    KnownBug {
        mutant: Mutant::StrangersIgnored,
        id: "strangers-ignored",
        wrong: "Nodes that no machine claims are not looked at.",
        report: "CPMS enhancement: an unmanaged node stops everything",
        section: "1.9 C3",
        scenario: "strangers",
        fits: &["C3"],
    },
    KnownBug {
        mutant: Mutant::FailureIgnored,
        id: "failure-ignored",
        wrong: "A replacement that failed does not stop the rollout: another is made, under another name.",
        report: "CPMS enhancement: nothing is made or deleted while Degraded",
        section: "1.9 C3",
        scenario: "machines",
        fits: &["C3", "C1", "G1", "G9"],
    },
    KnownBug {
        mutant: Mutant::InactiveActs,
        id: "inactive-acts",
        wrong: "The state of the set is not looked at.",
        report: "CPMS enhancement: an Inactive set writes to no machine",
        section: "1.9 C4",
        scenario: "inactive",
        fits: &["C4"],
    },
    KnownBug {
        mutant: Mutant::OnDeleteRolls,
        id: "on-delete-rolls",
        wrong: "The strategy of the set is not looked at.",
        report: "CPMS enhancement: OnDelete never starts by itself",
        section: "1.9 C7",
        scenario: "on-delete",
        fits: &["C7"],
    },
    KnownBug {
        mutant: Mutant::NextIndex,
        id: "next-index",
        wrong: "The index of a replacement is the next free number.",
        report: "CPMS enhancement: a replacement keeps its index",
        section: "1.9 C9",
        scenario: "rollout",
        fits: &["C9"],
    },
    KnownBug {
        mutant: Mutant::NewestDeleted,
        id: "newest-deleted",
        wrong: "Of two machines of an index the newer one is deleted.",
        report: "KCP: which machine goes is a list of priorities",
        section: "1.9 K10",
        scenario: "rollout",
        fits: &["C2", "G9"],
    },
    KnownBug {
        mutant: Mutant::Silent,
        id: "silent",
        wrong: "What is done is not told.",
        report: "every action is explained",
        section: "1.9 G5",
        scenario: "rollout",
        fits: &["G5"],
    },
    KnownBug {
        mutant: Mutant::TransitionsMove,
        id: "transitions-move",
        wrong: "The time of a condition moves with every write.",
        report: "conditions never flap without a change",
        section: "1.9 G6",
        scenario: "rollout",
        fits: &["G6"],
    },
    KnownBug {
        mutant: Mutant::GeneratesActive,
        id: "generates-active",
        wrong: "The generated set acts at once.",
        report: "CPMS enhancement: a set is generated Inactive",
        section: "1.9 C11",
        scenario: "generator",
        fits: &["C11"],
    },
    KnownBug {
        mutant: Mutant::GeneratorForces,
        id: "generator-forces",
        wrong: "What is generated is applied with force, over what a user has set.",
        report: "CPMS operator: edits of an Inactive set are thrown away",
        section: "1.9 C11, 1.8 D",
        scenario: "generator",
        fits: &["C11"],
    },
    KnownBug {
        mutant: Mutant::GeneratorRestless,
        id: "generator-restless",
        wrong: "What was generated last is not recognised, and applied again and again.",
        report: "kubewarden #645: ten million requests a day",
        section: "1.9 G4",
        scenario: "generator",
        fits: &["G4", "ESR"],
    },
    KnownBug {
        mutant: Mutant::ForeignTaken,
        id: "foreign-taken",
        wrong: "Every set is taken for a generated one.",
        report: "CAPZ #3244: what somebody else manages is overwritten",
        section: "1.9 M4",
        scenario: "generator",
        fits: &["C11"],
    },
    KnownBug {
        mutant: Mutant::DeletionOfSetUnseen,
        id: "deletion-of-set-unseen",
        wrong: "That the set is gone is not seen, and none is generated.",
        report: "Sieve: an event that is never observed",
        section: "1.2",
        scenario: "generator",
        fits: &["C11"],
    },
    KnownBug {
        mutant: Mutant::GeneratedOnce,
        id: "generated-once",
        wrong: "A generated set is never brought up to date.",
        report: "CPMS enhancement: the generated set describes the machines",
        section: "1.9 C11",
        scenario: "generator",
        fits: &["C11"],
    },
    KnownBug {
        mutant: Mutant::LearnersCounted,
        id: "learners-counted",
        wrong: "A member of etcd that only learns is counted, and another is let go for it (by the etcd operator, whom the controller trusts).",
        report: "CAPI quorum: a learner is no healthy member",
        section: "1.7.4",
        scenario: "learners",
        fits: &["C12"],
    },
    KnownBug {
        mutant: Mutant::WebhookFinal,
        id: "webhook-final",
        wrong: "The webhook is asked about Capstan's own writes too, and what it could not be asked about is not tried again.",
        report: "a webhook that is out of reach for its own controller",
        section: "1.8 G",
        scenario: "outages",
        fits: &["ESR", "C6"],
    },
    KnownBug {
        mutant: Mutant::DenialFinal,
        id: "denial-final",
        wrong: "A machine that could not be made for want of permission is not tried again.",
        report: "a permission that comes back",
        section: "1.8 A",
        scenario: "outages",
        fits: &["ESR"],
    },
    KnownBug {
        mutant: Mutant::DefinitionTrusted,
        id: "definition-trusted",
        wrong: "That the definition drops a field is not noticed, and the field is written again and again.",
        report: "a field that the other version does not know",
        section: "1.8 H",
        scenario: "upgrades",
        fits: &["G4"],
    },
    KnownBug {
        mutant: Mutant::HandmadeUncounted,
        id: "handmade-uncounted",
        wrong: "Machines that the controller did not make are not counted.",
        report: "KCP surge: machines <= replicas + maxSurge, whoever made them",
        section: "1.9 K4",
        scenario: "by-hand",
        fits: &["C1", "C13", "G9"],
    },
];
