//! How the machines of a pool are replaced: the rollout strategy and the limit of remediations.
//!
//! The CRD of a MachinePool has no field for them. Two annotations contain the JSON of
//! `spec.rollout` and `spec.remediation` of a MachineDeployment. Without an annotation the provider
//! alone decides. Source: the MachinePool Machines proposal, requirement R3.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::api::controlplane_cluster_x_k8s_io::kubeadm_control_plane::IntOrString;
use crate::model::Degradation;

/// The annotation with the rollout strategy: the JSON of `spec.rollout` of a MachineDeployment.
pub(super) const ROLLOUT: &str = "capstan.dev/rollout";
/// The annotation with the limit of remediations: the JSON of `spec.remediation` of a
/// MachineDeployment.
pub(super) const REMEDIATION: &str = "capstan.dev/remediation";

/// When outdated machines are deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rollout {
    /// The provider replaces outdated machines in its own way.
    Provider,
    /// An outdated machine is replaced after a user deletes it.
    OnDelete,
    /// Outdated machines are deleted while at most so many machines are unavailable.
    Rolling {
        /// The number of machines that may be unavailable.
        max_unavailable: usize,
        /// The number of instances that the provider may add meanwhile; `None` if it decides.
        max_surge: Option<usize>,
    },
}

/// The strategies of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Strategy {
    pub(super) rollout: Rollout,
    /// The number of machines that may be remediated at once.
    pub(super) max_in_flight: usize,
}

// The texts in `expecting` appear in refusals.
#[derive(Deserialize)]
#[serde(
    rename_all = "camelCase",
    deny_unknown_fields,
    expecting = "an object with the field strategy"
)]
struct RolloutField {
    strategy: StrategyField,
}

#[derive(Deserialize)]
#[serde(
    rename_all = "camelCase",
    deny_unknown_fields,
    expecting = "an object with the field type"
)]
struct StrategyField {
    #[serde(rename = "type")]
    type_: String,
    #[serde(default)]
    rolling_update: RollingField,
}

#[derive(Default, Deserialize)]
#[serde(
    rename_all = "camelCase",
    deny_unknown_fields,
    expecting = "an object with the fields maxUnavailable and maxSurge"
)]
struct RollingField {
    max_unavailable: Option<IntOrString>,
    max_surge: Option<IntOrString>,
}

#[derive(Deserialize)]
#[serde(
    rename_all = "camelCase",
    deny_unknown_fields,
    expecting = "an object with the field maxInFlight"
)]
struct RemediationField {
    max_in_flight: Option<IntOrString>,
}

/// The strategies in the annotations of a pool of so many replicas.
///
/// # Errors
/// An annotation cannot be read. Nothing is deleted then: a mistake must not lift a limit.
pub(super) fn strategy(annotations: &BTreeMap<String, String>, replicas: usize) -> Result<Strategy, Degradation> {
    let rollout = match annotations.get(ROLLOUT) {
        None => Rollout::Provider,
        Some(text) => rollout(text, replicas).map_err(|reason| unreadable(ROLLOUT, &reason))?,
    };
    let max_in_flight = match annotations.get(REMEDIATION) {
        None => 1,
        Some(text) => in_flight(text, replicas).map_err(|reason| unreadable(REMEDIATION, &reason))?,
    };
    Ok(Strategy { rollout, max_in_flight })
}

fn rollout(text: &str, replicas: usize) -> Result<Rollout, String> {
    let field: RolloutField = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let rolling = &field.strategy.rolling_update;
    match field.strategy.type_.as_str() {
        "OnDelete" => Ok(Rollout::OnDelete),
        "RollingUpdate" => {
            let surge = rolling.max_surge.as_ref();
            let max_surge = surge.map(|value| scaled_up("maxSurge", value, replicas)).transpose()?;
            let unavailable = rolling.max_unavailable.as_ref();
            let max_unavailable = unavailable.map_or(Ok(0), |value| scaled("maxUnavailable", value, replicas))?;
            Ok(Rollout::Rolling {
                max_unavailable,
                max_surge,
            })
        }
        other => Err(format!(
            "strategy.type is {other:?}; it must be RollingUpdate or OnDelete"
        )),
    }
}

fn in_flight(text: &str, replicas: usize) -> Result<usize, String> {
    let field: RemediationField = serde_json::from_str(text).map_err(|error| error.to_string())?;
    field
        .max_in_flight
        .map_or(Ok(1), |value| scaled("maxInFlight", &value, replicas))
}

/// How many instances a provider is to add while some are outdated, by the annotation of a pool of
/// so many replicas. `None` if the annotation does not say it, or cannot be read.
pub fn max_surge(annotations: &BTreeMap<String, String>, replicas: usize) -> Option<usize> {
    match strategy(annotations, replicas).ok()?.rollout {
        Rollout::Rolling { max_surge, .. } => max_surge,
        Rollout::Provider | Rollout::OnDelete => None,
    }
}

/// A number, or a percentage of the replicas, rounded down.
fn scaled(field: &str, value: &IntOrString, replicas: usize) -> Result<usize, String> {
    scaled_with(field, value, |percent| replicas.saturating_mul(percent) / 100)
}

/// A number, or a percentage of the replicas, rounded up.
fn scaled_up(field: &str, value: &IntOrString, replicas: usize) -> Result<usize, String> {
    scaled_with(field, value, |percent| replicas.saturating_mul(percent).div_ceil(100))
}

fn scaled_with(field: &str, value: &IntOrString, share: impl Fn(usize) -> usize) -> Result<usize, String> {
    let invalid =
        |got: String| format!("{field} is {got}; it must be a number of at least 0, or a percentage of at most 100%");
    match value {
        IntOrString::Int(number) => usize::try_from(*number).map_err(|_| invalid(number.to_string())),
        IntOrString::Text(text) => {
            let percent = text.strip_suffix('%').and_then(|number| number.parse::<u16>().ok());
            match percent.filter(|percent| *percent <= 100) {
                Some(percent) => Ok(share(usize::from(percent))),
                None => Err(invalid(format!("{text:?}"))),
            }
        }
    }
}

fn unreadable(annotation: &str, reason: &str) -> Degradation {
    Degradation {
        reason: "InvalidStrategy",
        message: format!("the annotation {annotation} cannot be read: {reason}. No Machine is deleted until it can"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(annotation: &str, value: &str) -> Result<Strategy, Degradation> {
        strategy(&BTreeMap::from([(annotation.to_owned(), value.to_owned())]), 10)
    }

    #[test]
    fn without_annotations_the_provider_rolls_and_one_machine_is_remediated_at_once() {
        let expected = Strategy {
            rollout: Rollout::Provider,
            max_in_flight: 1,
        };
        assert_eq!(strategy(&BTreeMap::new(), 10), Ok(expected));
    }

    #[test]
    fn numbers_and_percentages_are_read_and_percentages_are_rounded_down() {
        for (value, expected) in [("2", 2), ("\"25%\"", 2), ("\"100%\"", 10), ("0", 0)] {
            let text = format!(
                r#"{{"strategy": {{"type": "RollingUpdate", "rollingUpdate": {{"maxUnavailable": {value}}}}}}}"#
            );
            let rolling = Rollout::Rolling {
                max_unavailable: expected,
                max_surge: None,
            };
            assert_eq!(of(ROLLOUT, &text).unwrap().rollout, rolling);
            let text = format!(r#"{{"maxInFlight": {value}}}"#);
            assert_eq!(of(REMEDIATION, &text).unwrap().max_in_flight, expected);
        }
        let on_delete = of(ROLLOUT, r#"{"strategy": {"type": "OnDelete"}}"#).unwrap();
        assert_eq!(on_delete.rollout, Rollout::OnDelete);
    }

    #[test]
    fn a_percentage_of_max_surge_is_rounded_up() {
        let of = |rolling: &str| {
            let text = format!(r#"{{"strategy": {{"type": "RollingUpdate", "rollingUpdate": {rolling}}}}}"#);
            max_surge(&BTreeMap::from([(ROLLOUT.to_owned(), text)]), 3)
        };
        assert_eq!(of(r#"{"maxSurge": 2}"#), Some(2));
        assert_eq!(of(r#"{"maxSurge": "34%"}"#), Some(2));
        assert_eq!(of(r#"{"maxSurge": "1%"}"#), Some(1));
        assert_eq!(of(r#"{"maxSurge": 0}"#), Some(0));
        assert_eq!(of(r#"{"maxUnavailable": 1}"#), None);
        assert_eq!(of(r#"{"maxSurge": "all"}"#), None);
        assert_eq!(max_surge(&BTreeMap::new(), 3), None);
    }

    #[test]
    fn a_strategy_that_cannot_be_read_is_reported_and_lifts_no_limit() {
        for (annotation, text) in [
            (ROLLOUT, "RollingUpdate"),
            (ROLLOUT, r#"{"strategy": {"type": "Recreate"}}"#),
            (
                ROLLOUT,
                r#"{"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": -1}}}"#,
            ),
            (
                ROLLOUT,
                r#"{"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "101%"}}}"#,
            ),
            (
                ROLLOUT,
                r#"{"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailible": 1}}}"#,
            ),
            (REMEDIATION, r#"{"maxInFlight": "all"}"#),
        ] {
            let refused = of(annotation, text).unwrap_err();
            assert_eq!(refused.reason, "InvalidStrategy", "{text}");
            assert!(refused.message.contains(annotation), "{text}");
        }
    }
}
