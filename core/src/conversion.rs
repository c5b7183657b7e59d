//! Lists what cannot be converted between the Machine API and Cluster API.
//!
//! [`issues`] examines an object of either API, or an infrastructure object. An issue names the
//! field, the reason and the remedy, so that the response to a migration request can list what
//! prevents the migration. No value is dropped silently: a field is either convertible, or listed
//! here with an issue, or unknown, which is also an issue.
//!
//! Must never: look up other objects. [`disagreements`] compares an object with its infrastructure
//! cluster, and the caller provides both.
//!
//! Source: the Converting Machine API to Cluster API enhancement, and the fields that OpenShift's
//! implementation of it drops.

mod cluster;
mod generic;
mod health;
mod load_balancers;
mod platforms;
mod row;

use serde_json::Value;

use crate::api::machine_openshift_io::{self, machine, machine_health_check, machine_set};
use crate::api::{cluster_x_k8s_io, infrastructure_cluster_x_k8s_io};
use crate::model::FieldPath;
pub use cluster::{cluster_of, disagreements};
use row::judge;

/// The effect of an issue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The object cannot be converted.
    Blocks,
    /// The object can be converted, but the value is lost.
    Loses,
}

/// A field that the other API cannot express.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConversionIssue {
    /// The effect.
    pub severity: Severity,
    /// The field, from the root of the examined object.
    pub path: FieldPath,
    /// The reason, as a clause.
    pub reason: String,
    /// What to do, as a clause.
    pub remedy: String,
}

/// The fields of this object that the other API cannot express, blocking issues first, then by
/// path. Empty if nothing is lost, and for a kind that is not converted.
pub fn issues(object: &Value) -> Vec<ConversionIssue> {
    let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
    let group = text("apiVersion").split('/').next().unwrap_or_default();
    let spec = object.get("spec").unwrap_or(&Value::Null);
    let mut found = Vec::new();
    match (group, text("kind")) {
        (machine_openshift_io::GROUP, machine::KIND) => {
            generic::machine_api_machine("spec", spec, &mut found);
            load_balancers::of_worker("spec.providerSpec.value", object, &mut found);
        }
        (machine_openshift_io::GROUP, machine_set::KIND) => {
            generic::machine_api_set(spec, &mut found);
            let template = spec.get("template").unwrap_or(&Value::Null);
            load_balancers::of_worker("spec.template.spec.providerSpec.value", template, &mut found);
        }
        (machine_openshift_io::GROUP, machine_health_check::KIND) => {
            judge(health::MACHINE_API, "spec", spec, &mut found);
        }
        (cluster_x_k8s_io::GROUP, cluster_x_k8s_io::machine::KIND) => {
            judge(generic::CLUSTER_API_MACHINE, "spec", spec, &mut found);
        }
        (cluster_x_k8s_io::GROUP, cluster_x_k8s_io::machine_set::KIND) => {
            judge(generic::CLUSTER_API_SET, "spec", spec, &mut found);
            let machine = spec.pointer("/template/spec").unwrap_or(&Value::Null);
            judge(generic::CLUSTER_API_MACHINE, "spec.template.spec", machine, &mut found);
        }
        (cluster_x_k8s_io::GROUP, cluster_x_k8s_io::machine_health_check::KIND) => {
            judge(health::CLUSTER_API, "spec", spec, &mut found);
        }
        (infrastructure_cluster_x_k8s_io::GROUP, kind) => platforms::infrastructure(kind, spec, &mut found),
        _ => {}
    }
    found.sort();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn paths(object: &Value) -> Vec<String> {
        issues(object)
            .iter()
            .map(|issue| issue.path.as_str().to_owned())
            .collect()
    }

    fn aws(change: impl FnOnce(&mut Value)) -> Value {
        let mut object = json!({
            "apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine",
            "spec": {"authoritativeAPI": "MachineAPI", "providerSpec": {"value": {
                "kind": "AWSMachineProviderConfig", "ami": {"id": "ami-1"}, "instanceType": "m6i.xlarge",
                "placement": {"region": "us-east-1", "availabilityZone": "us-east-1a"},
                "blockDevices": [{"ebs": {"volumeSize": 120}}], "subnet": {"id": "subnet-1"},
                "credentialsSecret": {"name": "aws-cloud-credentials"}, "userDataSecret": {"name": "worker-user-data"},
            }}},
        });
        if let Some(value) = object.pointer_mut("/spec/providerSpec/value") {
            change(value);
        }
        object
    }

    #[test]
    fn an_ordinary_machine_converts() {
        assert_eq!(issues(&aws(|_| {})), []);
    }

    #[test]
    fn a_value_that_would_be_dropped_is_an_issue_with_its_field() {
        for (change, path) in [
            (json!({"ami": {"arn": "a"}}), "ami"),
            (json!({"iamInstanceProfile": {"arn": "a"}}), "iamInstanceProfile.arn"),
            (json!({"subnet": {"arn": "a"}}), "subnet.arn"),
            (
                json!({"securityGroups": [{"id": "a"}, {"arn": "b"}]}),
                "securityGroups[1].arn",
            ),
            (json!({"tags": [{"name": "a"}, {"name": "a"}]}), "tags"),
            (json!({"blockDevices": [{}, {}]}), "blockDevices"),
            (
                json!({"cpuOptions": {"confidentialCompute": "New"}}),
                "cpuOptions.confidentialCompute",
            ),
            (json!({"instanceTypo": "x"}), "instanceTypo"),
        ] {
            let object = aws(|value| {
                for (field, new) in change.as_object().into_iter().flatten() {
                    value[field] = new.clone();
                }
            });
            let expected = format!("spec.providerSpec.value.{path}");
            let found = paths(&object);
            assert!(found.contains(&expected), "{path}: {found:?}");
        }
    }

    #[test]
    fn blocking_issues_come_first_and_name_the_field_in_the_template() {
        let set = json!({
            "apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineSet",
            "spec": {"template": {"spec": {
                "lifecycleHooks": {"preDrain": [{"name": "example.com/Hook", "owner": "me"}]},
                "taints": [{"key": "a", "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00Z"}],
                "providerSpec": {"value": {"kind": "OvirtMachineProviderSpec"}}}}},
        });
        let found = issues(&set);
        assert_eq!(
            paths(&set),
            [
                "spec.template.spec.lifecycleHooks.preDrain[0].name",
                "spec.template.spec.providerSpec.value.kind",
                "spec.template.spec.taints[0].timeAdded",
            ]
        );
        assert!(
            found
                .iter()
                .all(|issue| !issue.reason.is_empty() && !issue.remedy.is_empty())
        );
        assert_eq!(found.last().map(|issue| issue.severity), Some(Severity::Loses));
    }

    #[test]
    fn an_unknown_field_is_an_issue_at_every_level() {
        for (api, kind, path) in [
            ("machine.openshift.io/v1beta1", "Machine", "spec"),
            ("machine.openshift.io/v1beta1", "MachineSet", "spec"),
            ("machine.openshift.io/v1beta1", "MachineSet", "spec.template.spec"),
            ("machine.openshift.io/v1beta1", "MachineHealthCheck", "spec"),
            ("cluster.x-k8s.io/v1beta2", "Machine", "spec"),
            ("cluster.x-k8s.io/v1beta2", "MachineSet", "spec"),
            ("cluster.x-k8s.io/v1beta2", "MachineSet", "spec.deletion"),
            ("cluster.x-k8s.io/v1beta2", "MachineSet", "spec.template.spec"),
            ("cluster.x-k8s.io/v1beta2", "MachineHealthCheck", "spec.checks"),
            ("cluster.x-k8s.io/v1beta2", "MachineHealthCheck", "spec.remediation"),
            ("cluster.x-k8s.io/v1beta2", "MachineHealthCheck", "spec"),
        ] {
            let mut object = json!({"apiVersion": api, "kind": kind});
            let mut at = &mut object;
            for field in path.split('.') {
                at = &mut at[field];
            }
            at["fieldOfTomorrow"] = json!(true);
            let found = paths(&object);
            assert!(
                found.contains(&format!("{path}.fieldOfTomorrow")),
                "{kind} {path}: {found:?}"
            );
        }
    }

    #[test]
    fn a_feature_that_only_cluster_api_has_is_an_issue() {
        let machine = json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
            "spec": {"clusterName": "c", "version": "v1.33.0", "readinessGates": [{"conditionType": "x"}],
                "bootstrap": {"configRef": {"kind": "K"}}, "deletion": {"nodeDeletionTimeoutSeconds": 10}, "newField": 1},
        });
        assert_eq!(
            paths(&machine),
            [
                "spec.bootstrap.configRef",
                "spec.newField",
                "spec.readinessGates",
                "spec.version"
            ]
        );
        let template = json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "AWSMachineTemplate",
            "spec": {"template": {"spec": {"cloudInit": {"secretCount": 1}, "instanceType": "m6i.xlarge"}}},
        });
        assert_eq!(paths(&template), ["spec.template.spec.cloudInit"]);
        let check = json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineHealthCheck",
            "spec": {"checks": {"unhealthyMachineConditions": [{}], "unhealthyNodeConditions": [{"type": "Ready"}]}},
        });
        assert_eq!(paths(&check), ["spec.checks.unhealthyMachineConditions"]);
    }
}
