//! Whether a control plane without a machine may create its first one.
//!
//! The first machine runs `kubeadm init` and starts a new etcd cluster. A control plane that ran
//! before and lost only its Machines, for example in a restore, still runs on its instances. So its
//! API server must be silent for [`SILENT`] first. A failure that does not prove silence, such as
//! refused credentials, never permits a first machine.

use jiff::{SignedDuration, Timestamp};

use super::action::{Action, Plan, Step, Wait, WaitReason};
use super::certificates::{FoundSecret, ran_before};
use super::desired::Bootstrap;
use super::inspection::{Failure, Inspection};
use super::plan::plan;
use super::state::State;
use crate::model::Degradation;

/// For how long the API server of an earlier control plane must be silent, without interruption.
pub const SILENT: SignedDuration = SignedDuration::from_mins(5);

/// Whether a server answers at the address of the managed cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Contact {
    /// The API server answers requests.
    Answers,
    /// Every attempt to connect failed without an answer, for this time.
    Silent(SignedDuration),
    /// Neither is known, for this reason.
    Unknown(String),
}

impl Contact {
    /// What an inspection says. `silent_for` is the time for which no server has answered.
    pub(super) fn of(inspection: &Inspection, silent_for: Option<SignedDuration>) -> Self {
        match (&inspection.nodes, silent_for) {
            (Ok(_), _) => Self::Answers,
            (Err(Failure::Silent(_)), Some(lasted)) => Self::Silent(lasted),
            (Err(Failure::Silent(reason) | Failure::ConnectionDown(reason) | Failure::InspectionFailed(reason)), _) => {
                Self::Unknown(reason.clone())
            }
        }
    }
}

/// The plan for objects, as files or a management cluster contain them. They do not tell whether
/// the API server of the cluster answers.
pub fn plan_of_objects(state: &State, now: Timestamp) -> Plan {
    let mut plan = plan(state, now);
    let contact = Contact::Unknown(String::from("only the controller connects to its API server"));
    hold(state, &[], &contact, &mut plan);
    plan
}

/// Removes the creation of a first machine from a plan, unless the control plane never ran or its
/// API server has been silent for long enough (V286).
pub(super) fn hold(state: &State, secrets: &[FoundSecret], contact: &Contact, plan: &mut Plan) {
    let is_first = |step: &Step| {
        matches!(
            step.action,
            Action::Create {
                bootstrap: Bootstrap::Init,
                ..
            }
        )
    };
    if !plan.steps.iter().any(is_first) {
        return;
    }
    let Some(ran) = ran_before(state, secrets) else { return };
    let wait = |message: String| Wait::new(WaitReason::EarlierControlPlaneGone, message);
    match contact {
        Contact::Silent(_) if state.cluster_is_initialized() => plan.degraded.push(Degradation {
            reason: "MachinesMissing",
            message: format!(
                "the control plane has no machine, its API server does not answer, and {ran}, so that the kubeadm \
                 bootstrap provider would let a new first machine join. Restore the Machines with their labels and their \
                 owner. If the control plane is lost, delete the Cluster and create it again"
            ),
        }),
        Contact::Silent(lasted) if *lasted >= SILENT => return,
        Contact::Silent(_) => plan.waits.push(wait(format!(
            "the control plane has no machine and may have run before: {ran}. A new first machine would start another \
             etcd. It is created when the API server of the cluster has been silent for {} minutes",
            SILENT.as_mins()
        ))),
        Contact::Unknown(reason) => plan.waits.push(wait(format!(
            "the control plane has no machine and may have run before: {ran}. Whether it still runs is not known: \
             {reason}. Restore the Machines, or correct what Secret {}-kubeconfig names, so that the API server of the \
             cluster answers or is silent",
            state.cluster_name
        ))),
        Contact::Answers => plan.degraded.push(Degradation {
            reason: "MachinesMissing",
            message: format!(
                "the control plane has no machine and may have run before: {ran}. The API server that Secret \
                 {}-kubeconfig names answers; restore the Machines with their labels and their owner: a new first \
                 machine would start another etcd",
                state.cluster_name
            ),
        }),
    }
    plan.steps.retain(|step| !is_first(step));
}

#[cfg(test)]
mod tests {
    use super::super::observed::Observed;
    use super::super::pending::LAST_CREATED;
    use super::*;
    use crate::api::meta::OwnerReference;
    use crate::kcp::samples::{World, now};

    fn state(is_initialized: bool) -> State {
        let mut world = World::new("");
        world.control_plane["status"]["initialization"] =
            serde_json::json!({"controlPlaneInitialized": is_initialized});
        State::observe(&Observed::of_objects(&world.objects()).unwrap(), now())
    }

    fn kubeconfig(owner: Option<OwnerReference>) -> FoundSecret {
        FoundSecret {
            name: String::from("c-kubeconfig"),
            type_: String::from("cluster.x-k8s.io/secret"),
            has_certificate: false,
            has_key: false,
            controller: owner,
        }
    }

    fn held(state: &State, secrets: &[FoundSecret], contact: &Contact) -> Plan {
        let mut plan = plan(state, now());
        assert_eq!(
            plan.steps.iter().filter(|step| step.is_disruptive()).count(),
            1,
            "{plan:?}"
        );
        hold(state, secrets, contact, &mut plan);
        plan
    }

    fn creates(plan: &Plan) -> bool {
        plan.steps.iter().any(Step::is_disruptive)
    }

    #[test]
    fn only_a_server_that_does_not_answer_is_silent() {
        let minute = Some(SignedDuration::from_mins(1));
        let contact = |failure: fn(String) -> Failure, silent_for| {
            let failure = failure(String::from("why"));
            let inspection = Inspection {
                nodes: Err(failure.clone()),
                pods: Err(failure.clone()),
                etcd: Err(failure),
            };
            Contact::of(&inspection, silent_for)
        };
        let unknown = Contact::Unknown(String::from("why"));
        assert_eq!(
            contact(Failure::Silent, minute),
            Contact::Silent(SignedDuration::from_mins(1))
        );
        assert_eq!(contact(Failure::Silent, None), unknown, "the last attempt is too old");
        assert_eq!(contact(Failure::ConnectionDown, minute), unknown);
        assert_eq!(contact(Failure::InspectionFailed, minute), unknown);
    }

    #[test]
    fn v286_only_lasting_silence_permits_the_first_machine_of_a_control_plane_that_ran() {
        let state = state(true);
        let held = |contact: &Contact| held(&state, &[], contact);
        assert!(creates(&held(&Contact::Silent(SILENT))));
        let short = held(&Contact::Silent(SILENT - SignedDuration::from_millis(1)));
        assert!(!creates(&short));
        assert_eq!(short.waits[0].reason, WaitReason::EarlierControlPlaneGone);
        let unknown = held(&Contact::Unknown(String::from("it refused the credentials")));
        assert!(!creates(&unknown));
        assert!(
            unknown.waits[0].message.contains("refused the credentials"),
            "{unknown:?}"
        );
        let answers = held(&Contact::Answers);
        assert!(!creates(&answers));
        assert_eq!(answers.degraded[0].reason, "MachinesMissing");
    }

    #[test]
    fn v299_no_first_machine_is_created_if_the_bootstrap_provider_would_let_it_join() {
        let mut state = state(false);
        let mut cluster = state.cluster.as_deref().cloned().unwrap();
        cluster.status.initialization.control_plane_initialized = Some(true);
        state.cluster = Some(std::sync::Arc::new(cluster));
        let plan = held(&state, &[], &Contact::Silent(SILENT));
        assert!(!creates(&plan));
        assert!(
            plan.degraded[0]
                .message
                .contains("delete the Cluster and create it again"),
            "{plan:?}"
        );
    }

    #[test]
    fn v287_a_machine_that_existed_counts_when_the_status_is_lost() {
        let mut state = state(false);
        let annotations = &mut state.control_plane.metadata.annotations;
        annotations.insert(LAST_CREATED.to_owned(), String::from("cp-abcde"));
        assert!(!creates(&held(
            &state,
            &[],
            &Contact::Unknown(String::from("not read"))
        )));
        assert!(creates(&held(&state, &[], &Contact::Silent(SILENT))));
    }

    #[test]
    fn v287_a_kubeconfig_of_an_earlier_control_plane_counts_when_the_status_is_lost() {
        let state = state(false);
        let unknown = Contact::Unknown(String::from("not read"));
        assert!(
            creates(&held(&state, &[], &unknown)),
            "a new control plane does not wait"
        );
        let control_plane = &state.control_plane.metadata;
        let own = OwnerReference {
            kind: String::from("KubeadmControlPlane"),
            name: control_plane.name().to_owned(),
            uid: control_plane.uid().to_owned(),
            ..OwnerReference::default()
        };
        assert!(!own.uid.is_empty());
        assert!(creates(&held(&state, &[kubeconfig(Some(own.clone()))], &unknown)));
        let earlier = OwnerReference {
            uid: String::from("of-an-earlier-one"),
            ..own
        };
        for owner in [Some(earlier), None] {
            assert!(!creates(&held(&state, &[kubeconfig(owner)], &unknown)));
        }
    }
}
