//! Where the two halves live, and who may write what: configured, with the names of a default installation.

use crate::api::{cluster_x_k8s_io, machine_openshift_io};
use crate::authority::spec::Api;
use crate::cel::rules::RuleFile;
use crate::model::User;

/// The garbage collector: with service accounts for each controller, and without.
pub const COLLECTORS: &[&str] = &[
    "system:serviceaccount:kube-system:generic-garbage-collector",
    "system:kube-controller-manager",
];

/// Where the two halves live, and who may write what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The namespace of the Machine API's half.
    pub machine_api_namespace: String,
    /// The namespace of Cluster API's half.
    pub cluster_api_namespace: String,
    /// Who keeps the copies as the originals: user names.
    pub sync_identities: Vec<String>,
    /// The Machine API's own controllers: they own the status and the metadata of its objects, also of copies.
    pub machine_api_controllers: Vec<String>,
    /// Cluster API's own controllers, likewise.
    pub cluster_api_controllers: Vec<String>,
    /// Who may write the number of machines of a MachineSet of Cluster API also where it is a copy, and which of its machines
    /// goes first: an autoscaler that knows Cluster API only. Nobody by default, since whoever keeps the copies has to
    /// carry the number over to the object that leads.
    pub autoscalers: Vec<String>,
}

impl Default for Config {
    fn default() -> Self {
        Self::of_namespaces(machine_openshift_io::NAMESPACE, cluster_x_k8s_io::NAMESPACE)
    }
}

impl Config {
    /// An installation in these namespaces, whose service accounts have the names that they have by default.
    pub fn of_namespaces(machine_api: &str, cluster_api: &str) -> Self {
        let account = |namespace: &str, name: &str| format!("system:serviceaccount:{namespace}:{name}");
        Self {
            machine_api_namespace: machine_api.to_owned(),
            cluster_api_namespace: cluster_api.to_owned(),
            sync_identities: vec![account(machine_api, "capstan-controllers")],
            machine_api_controllers: vec![account(machine_api, "machine-api-controllers")],
            cluster_api_controllers: vec![account(cluster_api, "capi-controllers")],
            autoscalers: Vec::new(),
        }
    }

    /// The namespace of an API's half.
    pub fn namespace(&self, api: Api) -> &str {
        match api {
            Api::MachineApi => &self.machine_api_namespace,
            Api::ClusterApi => &self.cluster_api_namespace,
        }
    }

    /// The controllers of an API.
    fn controllers(&self, api: Api) -> &[String] {
        match api {
            Api::MachineApi => &self.machine_api_controllers,
            Api::ClusterApi => &self.cluster_api_controllers,
        }
    }

    /// Whether a user keeps the copies as the originals. Who merely acts as a service account (impersonation) does not.
    pub fn syncs(&self, user: &User) -> bool {
        user.is_itself() && self.sync_identities.contains(&user.name)
    }

    /// Whether a user is a controller of an API, likewise. The controllers of the infrastructure have names of their own; they
    /// are service accounts of the namespace of Cluster API.
    pub fn controls(&self, api: Api, user: &User) -> bool {
        let beside =
            |group: &String| group.strip_prefix("system:serviceaccounts:") == Some(self.cluster_api_namespace.as_str());
        user.is_itself()
            && (self.controllers(api).contains(&user.name)
                || (api == Api::ClusterApi && user.groups.iter().any(beside)))
    }

    /// Puts what is configured into the variables of a rule file of this room.
    pub fn configure(&self, file: &mut RuleFile) {
        let Some(api) = Api::of_rules(&file.name) else { return };
        file.configure("home", &literal(self.namespace(api)));
        file.configure("syncIdentities", &list(&self.sync_identities));
        file.configure("autoscalers", &list(&self.autoscalers));
        file.configure("controllers", &list(self.controllers(api)));
        let [machine_api, cluster_api] = [machine_openshift_io::NAMESPACE, cluster_x_k8s_io::NAMESPACE];
        for text in file
            .rules
            .iter_mut()
            .flat_map(|rule| [&mut rule.message, &mut rule.advice])
        {
            *text = text
                .replace(machine_api, &self.machine_api_namespace)
                .replace(cluster_api, &self.cluster_api_namespace);
        }
    }
}

/// A string as CEL writes it.
fn literal(text: &str) -> String {
    let escaped = text.replace('\\', "\\\\").replace('\'', "\\'");
    format!("'{escaped}'")
}

fn list(texts: &[String]) -> String {
    let literals: Vec<String> = texts.iter().map(|text| literal(text)).collect();
    format!("[{}]", literals.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_leave_its_literal() {
        assert_eq!(literal("a' || true || '\\"), "'a\\' || true || \\'\\\\'");
    }
}
