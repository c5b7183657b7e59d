//! The rollout strategy, the validity of certificates, and the names of machines.

use serde_json::{Value, json};

use super::Judge;
use super::table::{CERTIFICATE_VALIDITY, CERTIFICATES_EXPIRY, MAX_SURGE, NAMING, SCALE_IN, STRATEGY};
use crate::api::controlplane_cluster_x_k8s_io::kubeadm_control_plane::{ROLLING_UPDATE, RolloutStrategy};
use crate::kcp::naming;
use crate::model::ViolationKind;

/// How long the certificate of an authority is valid by default, in days.
const DEFAULT_AUTHORITY_DAYS: i32 = 3650;
/// With fewer machines than this, a machine cannot be deleted before its replacement exists.
pub(super) const LEAST_FOR_SCALE_IN: i32 = 3;

impl Judge<'_> {
    pub(super) fn rollout(&mut self) {
        let strategy = &self.spec.rollout.strategy;
        // A template may leave the strategy out.
        if *strategy == RolloutStrategy::default() {
            return;
        }
        if strategy.type_ != ROLLING_UPDATE {
            let required = STRATEGY.violation(self.path("rollout.strategy.type"), ViolationKind::Required);
            self.found.push(required.advice("set RollingUpdate"));
        }
        let Some(surge) = &strategy.rolling_update.max_surge else {
            return;
        };
        let number = surge.number();
        if !matches!(number, Some(0 | 1)) {
            let path = self.path("rollout.strategy.rollingUpdate.maxSurge");
            let invalid = MAX_SURGE.violation(path, ViolationKind::Invalid).got(&json!(surge));
            self.found.push(
                invalid.advice("set 1 to create a machine before one is deleted, or 0 to delete a machine first"),
            );
        }
        let few = self.spec.replicas.is_some_and(|replicas| replicas < LEAST_FOR_SCALE_IN);
        if number == Some(0) && few {
            let path = self.path("rollout.strategy.rollingUpdate");
            let required = SCALE_IN.violation(path, ViolationKind::Required);
            self.found
                .push(required.advice("set maxSurge to 1, or replicas to 3 or more"));
        }
    }

    pub(super) fn certificates(&mut self) {
        let configuration = &self.spec.kubeadm_config_spec.cluster_configuration;
        let days = configuration.certificate_validity_period_days;
        if days == 0 {
            return;
        }
        let authority = configuration.ca_certificate_validity_period_days;
        let (longest, source) = match authority {
            0 => (DEFAULT_AUTHORITY_DAYS, "the default of caCertificateValidityPeriodDays"),
            days => (days, "caCertificateValidityPeriodDays"),
        };
        if days > longest {
            let path = self.kubeadm("clusterConfiguration.certificateValidityPeriodDays");
            let allowed = format!("must be at most {longest}, {source}");
            let invalid = CERTIFICATE_VALIDITY.because(path, ViolationKind::Invalid, allowed);
            let advice = "an authority must outlive the certificates that it signs; set fewer days";
            self.found.push(invalid.got(&Value::from(days)).advice(advice));
        }
        let expiry = self.spec.rollout.before.certificates_expiry_days;
        if expiry != 0 && expiry >= days {
            let path = self.path("rollout.before.certificatesExpiryDays");
            let allowed = format!("must be less than certificateValidityPeriodDays, which is {days}");
            let invalid = CERTIFICATES_EXPIRY.because(path, ViolationKind::Invalid, allowed);
            let advice = "otherwise each new machine is replaced at once; set fewer days";
            self.found.push(invalid.got(&Value::from(expiry)).advice(advice));
        }
    }

    pub(super) fn naming(&mut self) {
        let template = &self.spec.machine_naming.template;
        if template.is_empty() {
            return;
        }
        if let Some(problem) = naming::problem(template) {
            let path = self.path("machineNaming.template");
            let invalid = NAMING.because(path, ViolationKind::Invalid, problem);
            let advice = "use a template such as {{ .kubeadmControlPlane.name }}-{{ .random }}";
            self.found
                .push(invalid.got(&Value::from(template.as_str())).advice(advice));
        }
    }
}
