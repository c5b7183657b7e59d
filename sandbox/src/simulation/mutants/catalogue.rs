//! The known bugs: what each does, where it is from, and which invariants describe it.
//!
//! A report is one that the reliability page names, in the given section. Where the page names a
//! rule of a design document instead of a report, the text contains the rule.

/// What is known of a bug.
#[derive(Clone, Copy, Debug)]
pub struct KnownBug {
    /// The bug.
    pub mutant: Mutant,
    /// Its id.
    pub id: &'static str,
    /// What the controller does wrong.
    pub wrong: &'static str,
    /// The report.
    pub report: &'static str,
    /// The section of the reliability page that names the report.
    pub section: &'static str,
    /// The scenario in which the bug matters.
    pub scenario: &'static str,
    /// The invariants that describe the bug. A violation of another invariant does not count.
    pub fits: &'static [&'static str],
}

macro_rules! known_bugs {
    ($($mutant:ident $id:literal in $scenario:literal violates [$($fits:literal),+]
        $wrong:literal
        $report:literal, $section:literal;)+) => {
        /// A bug that the controllers have on purpose.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Mutant {
            $(#[doc = $wrong] $mutant,)+
        }

        /// All known bugs.
        pub const CATALOGUE: &[KnownBug] = &[
            $(KnownBug {
                mutant: Mutant::$mutant,
                id: $id,
                wrong: $wrong,
                report: $report,
                section: $section,
                scenario: $scenario,
                fits: &[$($fits),+],
            },)+
        ];
    };
}

known_bugs! {
    RandomNames "random-names" in "requests" violates ["G1", "G2", "ESR"]
        "Every attempt to create a replacement uses another name, so a lost answer leads to a second machine."
        "CPMS operator: names by rand.String(5)", "1.4b.2";
    OverlappingLeaders "overlapping-leaders" in "leaders" violates ["G1", "G2", "C1", "C13"]
        "A replica does not check whether it leads before a step, and names are random: two processes create a machine each."
        "CPMS operator: two overlapping leaders both pass check-then-create", "1.4b.2";
    SurgeMiscounted "surge-miscounted" in "rollout" violates ["C1", "C13"]
        "A replacement that the caches do not show fills its index, and does not count as surge."
        "CPMS operator: surge 1 becomes 2 under a stale cache", "1.4b.1";
    GoingUncounted "going-uncounted" in "deletions" violates ["C1", "C9", "C13", "G1", "G9"]
        "Machines that are being deleted do not count: all machines that are deleted at once are replaced at once."
        "CPMS operator: no surge limit for machines that are deleted at once", "1.4b.3";
    PauseIgnored "pause-ignored" in "pauses" violates ["P1"]
        "The controller does not see that the rollout is paused, and continues."
        "capi-operator: acts on a cached object that is not paused", "1.4b.4";
    EditUnseen "edit-unseen" in "edits" violates ["ESR", "G9", "C8"]
        "The controller does not see an edit during a rollout, and completes the rollout of the first template."
        "capi-operator: the direction is not safe if a user aborts it half-way", "1.4b.5";
    BehindDuplicates "behind-duplicates" in "stale" violates ["G1", "G2", "C1", "C13"]
        "The controller decides on caches only, forgets its writes, and uses random names."
        "k0smotron #1534: one machine becomes six", "1.9 K8";
    SyncTimeout "sync-timeout" in "stale" violates ["G1", "G2", "C1", "C13"]
        "The wait for the cache after a write ends at once, the cache replaces the live list, and names are random."
        "CAPI #13649: duplicates when the wait for the cache times out", "1.9";
    ShortList "short-list" in "rollout" violates ["G9", "C1", "C9", "C13"]
        "The controller accepts an incomplete list of machines."
        "CAPI #3001: existing machines are not listed, and created again", "1.9 K8";
    UnreadyUncounted "unready-uncounted" in "rollout" violates ["G1", "G2", "G9", "C1", "C13"]
        "Machines that are not ready do not count, and are created once more."
        "kubernetes #129795: extra replicas under overload", "1.4";
    DeletionUnseen "deletion-unseen" in "deletions" violates ["G8", "ESR"]
        "A deletion is not a tracked write: a machine that is being deleted still counts as one that stays."
        "CAPI (KEP-5647): deletes count as writes too", "1.4";
    HookRemoved "hook-removed" in "rollout" violates ["C10"]
        "The lifecycle hook of a machine is removed before its deletion, so its etcd member leaves first."
        "CAPI #8877: the member is removed, then the machine", "1.9 K5, C10";
    TwoLost "two-lost" in "deletions" violates ["G8", "ESR"]
        "No machine is created while two machines are being deleted."
        "CAPI #10125: five machines that lose two never recover", "1.9";
    NodeByName "node-by-name" in "machines" violates ["ESR", "C2", "G9"]
        "The controller looks up a node by the name of its machine."
        "CAPI #4239: a node has another name than its machine", "1.8 E";
    DeletionForgotten "deletion-forgotten" in "rollout" violates ["ESR"]
        "The controller takes a deletion for executed, and never requests it."
        "CAPI #5483: a deletion that never takes effect", "1.9 G7";
    TemplateOverwritten "template-overwritten" in "rollout" violates ["G9"]
        "A patch of the set overwrites fields of the user."
        "CAPZ #3244: a field of another manager is overwritten", "1.9 M4";
    EditedInPlace "edited-in-place" in "rollout" violates ["G9"]
        "The controller changes the spec of an existing machine."
        "k0smotron #1623: what must never change is generated again", "1.9 K7";
    ReadinessIgnored "readiness-ignored" in "rollout" violates ["C2"]
        "A node that is not ready counts as ready, so the old machine is deleted too early."
        "OCPBUGS-7989: a machine is Ready before its node is", "1.9 C2";
    NodeNotAwaited "node-not-awaited" in "rollout" violates ["C2"]
        "A replacement is taken to have the node of the old machine, which is deleted too early."
        "OCPBUGS-7516: the controller does not wait for the node", "1.9 C2";
    FirstDomain "first-domain" in "on-delete" violates ["C8", "G9", "ESR"]
        "Every replacement is in the first failure domain."
        "OCP 4.14: OnDelete replaces in a wrong failure domain", "1.9";
    DomainChurn "domain-churn" in "edits" violates ["C8", "G9", "ESR"]
        "A new failure domain changes the mapping of all failure domains."
        "OCP 4.14: a new failure domain churns the mapping", "1.9 C8";
    StatusForgotten "status-forgotten" in "rollout" violates ["ESR"]
        "The controller takes a status for written, and never writes it."
        "OCP 4.16: UnavailableReplicas is wrong", "1.9";
    GenerationAhead "generation-ahead" in "rollout" violates ["G6"]
        "The status reports a generation that does not exist yet."
        "capi-operator #313: a generation is taken for synchronized", "1.7.7, G6";
    FinalizersOverwritten "finalizers-overwritten" in "rollout" violates ["G7", "G8"]
        "A patch of a machine removes its finalizers, so its instance outlives it."
        "outscale #543: 3,325 machines leaked", "1.9 G7";
    EtcdIgnored "etcd-ignored" in "etcd" violates ["C12"]
        "The controller ignores the report of the etcd operator."
        "etcd-operator #923: deletions while members are not healthy", "1.9 C12";
    StatusAlwaysWritten "status-always-written" in "rollout" violates ["G4", "ESR"]
        "The controller writes the status although it does not differ."
        "kubewarden adm-controller #645: ten million requests a day", "1.9 G4";
    OthersIgnored "others-ignored" in "nodes" violates ["C12", "C2"]
        "The controller ignores other nodes and etcd members when it deletes a machine."
        "CAPI preflight: every machine has a healthy node", "1.7.3";
    FinalizerFirst "finalizer-first" in "set-deleted" violates ["C6"]
        "The finalizer of the set is removed before the owner references."
        "CPMS operator: a deleted set deletes its machines", "1.9 C6";
    SelectedReleased "selected-released" in "set-deleted" violates ["C6"]
        "Only selected machines lose their owner reference to a deleted set."
        "CPMS operator: a deselected machine is deleted with the set", "1.9 C6";
    NoFinalizer "no-finalizer" in "set-deleted" violates ["C6", "ESR"]
        "The set has no finalizer that would delay its deletion until its machines are released."
        "CPMS operator: garbage collection with a stale graph", "1.9 C6";
    SetTakesMachines "set-takes-machines" in "set-deleted" violates ["C6", "C4", "G9"]
        "The controller deletes machines when it should release them."
        "CPMS operator: the set is deleted, and its machines with it", "1.9 C6";
    UnmanagedNodesIgnored "strangers-ignored" in "strangers" violates ["C3"]
        "The controller ignores control plane nodes without a machine."
        "CPMS enhancement: an unmanaged node stops the rollout", "1.9 C3";
    FailureIgnored "failure-ignored" in "machines" violates ["C3", "C1", "G1", "G9"]
        "A failed replacement does not stop the rollout: another one is created under another name."
        "CPMS enhancement: nothing is created or deleted while Degraded", "1.9 C3";
    InactiveActs "inactive-acts" in "inactive" violates ["C4"]
        "The controller ignores the state of the set."
        "CPMS enhancement: an Inactive set writes to no machine", "1.9 C4";
    OnDeleteRolls "on-delete-rolls" in "on-delete" violates ["C7"]
        "The controller ignores the strategy of the set."
        "CPMS enhancement: OnDelete never starts a rollout", "1.9 C7";
    NextIndex "next-index" in "rollout" violates ["C9"]
        "A replacement gets the next free index."
        "CPMS enhancement: a replacement keeps its index", "1.9 C9";
    NewestDeleted "newest-deleted" in "rollout" violates ["C2", "G9"]
        "The controller deletes the newer one of two machines of an index."
        "KCP: a list of priorities decides which machine is deleted", "1.9 K10";
    Silent "silent" in "rollout" violates ["G5"]
        "The controller publishes no events."
        "an event explains every action", "1.9 G5";
    TransitionsMove "transitions-move" in "rollout" violates ["G6"]
        "The transition time of a condition changes with every write."
        "conditions never change without a cause", "1.9 G6";
    GeneratesActive "generates-active" in "generator" violates ["C11"]
        "The generated set is Active."
        "CPMS enhancement: a set is generated Inactive", "1.9 C11";
    GeneratorForces "generator-forces" in "generator" violates ["C11"]
        "The generator applies with force, and overwrites fields of a user."
        "CPMS operator: edits of an Inactive set are lost", "1.9 C11, 1.8 D";
    GeneratorRestless "generator-restless" in "generator" violates ["G4", "ESR"]
        "The generator does not recognize its last result, and applies it again and again."
        "kubewarden #645: ten million requests a day", "1.9 G4";
    ForeignTaken "foreign-taken" in "generator" violates ["C11"]
        "The generator takes every set for a generated one."
        "CAPZ #3244: an object of another manager is overwritten", "1.9 M4";
    DeletionOfSetUnseen "deletion-of-set-unseen" in "generator" violates ["C11"]
        "The generator does not see that the set is deleted, and generates none."
        "Sieve: an event that is never observed", "1.2";
    GeneratedOnce "generated-once" in "generator" violates ["C11"]
        "A generated set is never updated."
        "CPMS enhancement: the generated set describes the machines", "1.9 C11";
    LearnersCounted "learners-counted" in "learners" violates ["C12"]
        "A learner counts as an etcd voter, and another member leaves too early. The etcd operator has this bug, and the controller trusts the operator."
        "CAPI quorum: a learner is not a healthy member", "1.7.4";
    WebhookFinal "webhook-final" in "outages" violates ["ESR", "C6"]
        "The controller does not retry a write after the webhook was out of reach."
        "a webhook that is out of reach for its own controller", "1.8 G";
    DenialFinal "denial-final" in "outages" violates ["ESR"]
        "The controller does not retry the creation of a machine after a permission was missing."
        "a permission that is granted again", "1.8 A";
    RefusalFinal "refusal-final" in "neighbours" violates ["ESR"]
        "A machine that the webhook of another component refused is not requested again."
        "a webhook of another component that admits machines later", "1.8 G";
    DefinitionTrusted "definition-trusted" in "upgrades" violates ["G4", "ESR"]
        "The controller does not notice that the CRD prunes a field, and writes the field again and again."
        "a field that the other version does not contain", "1.8 H";
    HandmadeUncounted "handmade-uncounted" in "by-hand" violates ["C1", "C13", "G9"]
        "Machines that the controller did not create do not count."
        "KCP surge: machines <= replicas + maxSurge, independent of their creator", "1.9 K4";
    TemplateAsSent "template-as-sent" in "neighbours" violates ["P3", "P4"]
        "A machine that does not equal the template as it was sent is outdated: a field that a webhook drops creates and deletes machines without end."
        "a webhook that drops one field: 289 machines in a minute", "1.8 G";
    DomainMisread "domain-misread" in "neighbours" violates ["P3", "P4", "G9"]
        "The controller cannot tell two failure domains apart, so a machine in the second one is always in the wrong one."
        "two failure domains of vSphere that differ in their networks only", "1.9 C8";
    WorkersTaken "workers-taken" in "neighbours" violates ["P2"]
        "The selector alone decides which machines belong to the set, and it also matches workers."
        "a selector of the cluster label: workers are relabelled or deleted", "1.9 M4";
    IndexSharedFirst "index-shared-first" in "neighbours" violates ["P5", "C12"]
        "One of several ready machines of an index is deleted before an empty index gets a machine."
        "machine names that end in the same number", "1.9 C2";
    SelectorTrusted "selector-trusted" in "neighbours" violates ["G4", "ESR"]
        "The controller does not notice that the CRD of OpenShift prunes status.selector, and writes the status again and again."
        "a status that is written every five seconds", "1.9 G4";
    RefusedLabelBlocks "refused-label-blocks" in "neighbours" violates ["ESR", "P7"]
        "After a label patch is refused, no machine is created any more."
        "a label patch that is refused stops the repair", "1.8 G";
    NodesJoinForever "nodes-join-forever" in "neighbours" violates ["P7"]
        "A control plane node without a machine counts as one that joins, for ever."
        "an unclaimed node beside a machine without a node stops everything", "1.9 C3";
    NotStartedUnseen "not-started-unseen" in "neighbours" violates ["C12"]
        "A report of the etcd operator is healthy unless it contains the word unhealthy."
        "3 of 4 members are available, a member has not started", "1.9 C12";
    FailureStopsRepair "failure-stops-repair" in "neighbours" violates ["P7", "ESR"]
        "One failed machine stops the repair of all other indexes."
        "a failed machine, and another index without a machine", "1.9 C3";
    NameReused "name-reused" in "neighbours" violates ["P8"]
        "All machines that are created for an empty index have the same name."
        "clouds that find instances by name take over a leftover instance", "1.9 G7";
    ProgressStops "progress-stops" in "neighbours" violates ["P6"]
        "Progressing is False while a rollout waits for etcd."
        "oc wait returns in the middle of a rollout", "1.9 G6";
    FormerSetAdopts "former-set-adopts" in "set-deleted" violates ["C6"]
        "A replica that was paused adopts a machine for a set that was deleted meanwhile."
        "the garbage collector deletes a machine whose owner is gone", "1.9 C6";
}
