//! The list of the seeded bugs: what each does wrong, and the invariants that describe it.
//! `mutants` inserts them.

/// A bug, its id, what it does, the first seed that is tried, and the invariants that describe it.
/// `ESR`, `G4`, `G6`, and `G8` are invariants of every controller.
pub type Listed = (Bug, &'static str, &'static str, u64, &'static [&'static str]);

macro_rules! bugs {
    ($($bug:ident $id:literal from $from:literal violates [$($fits:literal),+] $wrong:literal;)+) => {
        /// A bug that the controller has on purpose.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Bug {
            $(#[doc = $wrong] $bug,)+
        }

        /// All bugs.
        pub const BUGS: &[Listed] = &[
            $((Bug::$bug, $id, $wrong, $from, &[$($fits),+]),)+
        ];
    };
}

bugs! {
    LeaderStays "leader-stays" from 0 violates ["K2"]
        "The leadership of etcd is never moved.";
    MembersStay "members-stay" from 0 violates ["K7", "K10"]
        "No member is ever removed.";
    AllHealthy "all-healthy" from 0 violates ["K1", "K5", "K6"]
        "Every member and every Node is reported as healthy.";
    LearnersVote "learners-vote" from 0 violates ["K3", "K6"]
        "Learners are reported as voting members.";
    SecondInit "second-init" from 0 violates ["K4"]
        "Every machine begins a control plane of its own.";
    RefusalIsSilence "refusal-is-silence" from 0 violates ["K4"]
        "A managed cluster that refuses the credentials counts as silent.";
    RandomNames "random-names" from 0 violates ["K5"]
        "Every attempt to create a machine has another name, and no attempt is recorded.";
    OneMore "one-more" from 0 violates ["K5"]
        "The controller rests at two machines more than replicas.";
    OneLess "one-less" from 0 violates ["K6", "K10"]
        "The controller rests at one machine less than replicas.";
    AlwaysSurges "always-surges" from 0 violates ["K5"]
        "The controller does not see that maxSurge is 0.";
    GoingStands "going-stands" from 0 violates ["K6", "K10"]
        "A machine that is being deleted counts as one that stays.";
    Swapped "swapped" from 0 violates ["K6", "K10"]
        "A health check that found a machine healthy demands its replacement.";
    NoRemediation "no-remediation" from 0 violates ["K10"]
        "The demand of a health check is not seen.";
    EditUnseen "edit-unseen" from 0 violates ["K10", "K13"]
        "A new version is not seen.";
    Downgrades "downgrades" from 0 violates ["K5"]
        "A machine of a higher version than the control plane is replaced by one of its version.";
    EtcdExternal "etcd-external" from 0 violates ["K6", "K7", "K10"]
        "The hook goes without the member, as if etcd were external.";
    OtherHooks "other-hooks" from 0 violates ["K7"]
        "The hooks of other controllers are not seen.";
    NewAuthorities "new-authorities" from 0 violates ["K8"]
        "Certificate authorities are issued again.";
    SpecWritten "spec-written" from 0 violates ["K9"]
        "A write to the control plane changes its spec.";
    WrongKind "wrong-kind" from 0 violates ["K9"]
        "The infrastructure machine is deleted in the place of the Machine.";
    InPlace "in-place" from 0 violates ["K9"]
        "A machine gets the version of the control plane in place.";
    NoLabels "no-labels" from 0 violates ["K10", "G4"]
        "Labels of the template do not reach existing machines.";
    IgnoresPause "ignores-pause" from 0 violates ["K11"]
        "The pause of the control plane is not seen.";
    IgnoresRolloutPause "ignores-rollout-pause" from 200 violates ["K11"]
        "The pause of the rollout is not seen.";
    OneDomain "one-domain" from 0 violates ["K12"]
        "Every new machine is placed in the first failure domain.";
    Unexplained "unexplained" from 0 violates ["K10", "K13"]
        "From the moment at which all is well, the status is not written any more.";
    FinalizerFirst "finalizer-first" from 0 violates ["K10", "G8"]
        "The finalizer is removed before the machines are gone.";
    NoLiveRead "no-live-read" from 0 violates ["K5", "K6", "K10", "K11", "K12", "G8"]
        "A deletion follows from the caches alone, and has no precondition.";
    Restless "restless" from 0 violates ["G4", "ESR"]
        "The status is written although it does not change.";
    EarlyGeneration "early-generation" from 0 violates ["G6"]
        "The status reports a generation that does not exist.";
}
