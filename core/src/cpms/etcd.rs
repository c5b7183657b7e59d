//! The health of etcd, as its operator reports it (decision 17).
//!
//! The etcd operator protects the quorum with a deletion hook, which Capstan never changes. The
//! health is an additional gate. An unknown health is not healthy. Without an etcd operator there
//! is no gate.

use crate::api::config_openshift_io::cluster_operator::ClusterOperator;

/// The report of the etcd operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Etcd {
    /// The cluster has no etcd operator, and nothing waits for it.
    NotReported,
    /// All members are healthy.
    Healthy,
    /// A member is not healthy, or the operator does not report.
    Unhealthy {
        /// The message of the operator.
        message: String,
    },
}

impl Etcd {
    /// Reads the ClusterOperator `etcd`.
    pub(super) fn of(operator: Option<&ClusterOperator>) -> Self {
        let Some(operator) = operator else {
            return Self::NotReported;
        };
        let unhealthy = |message: Option<&String>, otherwise: &str| Self::Unhealthy {
            message: message
                .filter(|text| !text.is_empty())
                .map_or_else(|| otherwise.to_owned(), Clone::clone),
        };
        let available = operator.condition("Available");
        let degraded = operator.condition("Degraded");
        match (available, degraded) {
            (_, Some(degraded)) if degraded.status == "True" => unhealthy(degraded.message.as_ref(), "it is degraded"),
            (Some(available), _) if available.status != "True" => {
                unhealthy(available.message.as_ref(), "it is not available")
            }
            // The operator is available while one of three members is unhealthy; only its message
            // names that member.
            (Some(available), _) if available.message.as_deref().is_some_and(names_unhealthy_member) => {
                unhealthy(available.message.as_ref(), "")
            }
            (None, _) => unhealthy(None, "it does not report whether etcd is available"),
            _ => Self::Healthy,
        }
    }
}

fn names_unhealthy_member(message: &str) -> bool {
    message.contains("is unhealthy") || message.contains("are unhealthy")
}
