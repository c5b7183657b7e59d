//! The list of the seeded bugs: what each does wrong, the scenario that meets it, and the
//! invariants that describe it. `mutants` inserts them.

macro_rules! bugs {
    ($($bug:ident $id:literal in $scenario:literal violates [$($fits:literal),+] $wrong:literal;)+) => {
        /// A bug that the controller has on purpose.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Bug {
            $(#[doc = $wrong] $bug,)+
        }

        /// All bugs: what each does, the scenario that meets it, and the invariants that describe
        /// it.
        pub const BUGS: &[(Bug, &str, &str, &str, &[&str])] = &[
            $((Bug::$bug, $id, $wrong, $scenario, &[$($fits),+]),)+
        ];
    };
}

bugs! {
    EtcdIgnored "etcd-ignored" in "members" violates ["H1", "H4", "H5"]
        "Every etcd member counts as healthy.";
    LearnersVote "learners-vote" in "members" violates ["H15"]
        "An etcd member that is a learner counts as one that votes.";
    GoingUncounted "going-uncounted" in "deletions" violates ["H2", "H5"]
        "A machine that is being deleted does not exist for the controller.";
    GoingStands "going-stands" in "deletions" violates ["H5", "H11", "ESR", "G8"]
        "A machine that is being deleted counts as one that stays.";
    EvenNumbers "even-numbers" in "scale" violates ["H2", "H11", "ESR"]
        "The controller rests at one machine more than replicas.";
    OneLess "one-less" in "scale" violates ["H5", "H11", "ESR"]
        "The controller rests at one machine less than replicas.";
    RandomNames "random-names" in "processes" violates ["H2", "H3", "H10", "H11"]
        "Every attempt to create a machine has another name, and no attempt is recorded.";
    Swapped "swapped" in "both" violates ["H2", "H6", "ESR"]
        "Outdated machines count as current, and current ones as outdated.";
    EditUnseen "edit-unseen" in "shape" violates ["ESR"]
        "The controller does not see an edit of the template.";
    Unasked "unasked" in "single" violates ["H7"]
        "The only machine is replaced without the consent of a user.";
    TakesForeign "takes-foreign" in "owners" violates ["H8"]
        "A machine of another controller is adopted.";
    DropsHooks "drops-hooks" in "shape" violates ["H8", "H1"]
        "The mark of a machine removes its hooks.";
    WeakHealthCheck "weak-health-check" in "health-check" violates ["H9"]
        "The health check allows one remediation more.";
    NoHealthCheck "no-health-check" in "scale" violates ["H9", "ESR"]
        "No health check is created.";
    NoFinalizer "no-finalizer" in "removal" violates ["H10"]
        "Machines get the ControlPlane as their owner, and it has no finalizer.";
    FinalizerFirst "finalizer-first" in "removal" violates ["H10"]
        "The finalizer is removed before the machines are released.";
    OneZone "one-zone" in "scale" violates ["H11"]
        "Every new machine is placed in the first failure domain.";
    Restarts "restarts" in "domains" violates ["H14"]
        "The controller forgets which moves for a better spread it tried.";
    NeverEven "never-even" in "domains" violates ["G4", "H11", "ESR"]
        "The controller never sees that a record of a move was stored, and so makes none.";
    Overwrites "overwrites" in "removal" violates ["H13"]
        "A write to the ControlPlane changes its spec.";
    Silent "silent" in "scale" violates ["G5"]
        "No event reports a creation or a deletion.";
    Restless "restless" in "scale" violates ["G4"]
        "The status is written although it does not change.";
    EarlyGeneration "early-generation" in "scale" violates ["G6"]
        "The status reports a generation that does not exist.";
    TemplateAsSent "template-as-sent" in "scale" violates ["ESR", "H2", "H11"]
        "No new machine is ever current.";
    MembersStay "members-stay" in "own-members" violates ["H1", "H12"]
        "The controller takes a member for removed that is still there.";
    AllAnswer "all-answer" in "own-members" violates ["H1", "H4", "H5"]
        "Without an etcd operator, every member counts as healthy.";
}
