//! The namespaces of the two APIs and the identities with special rights, with the names of a
//! default installation.

use crate::api::{cluster_x_k8s_io, machine_openshift_io};
use crate::authority::spec::Api;
use crate::cel::rules::RuleFile;
use crate::model::User;

/// The user names of the garbage collector: with one service account for each controller, and
/// without.
pub const COLLECTORS: &[&str] = &[
    "system:serviceaccount:kube-system:generic-garbage-collector",
    "system:kube-controller-manager",
];

/// The namespaces of the two APIs, and the identities with special rights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The namespace of the Machine API's objects.
    pub machine_api_namespace: String,
    /// The namespace of Cluster API's objects.
    pub cluster_api_namespace: String,
    /// The user names of the sync controllers, which keep mirrors equal to authoritative objects.
    /// On OpenShift the service account `capi-controllers` runs OpenShift's own migration.
    pub sync_identities: Vec<String>,
    /// The user names of the Machine API's controllers. They write the status and the metadata of
    /// their objects, also of mirrors.
    pub machine_api_controllers: Vec<String>,
    /// The user names of Cluster API's core controllers, with the same rights on their objects. The
    /// infrastructure providers are the other service accounts of Cluster API's namespace.
    pub cluster_api_controllers: Vec<String>,
    /// The user names of the etcd operator, which adds and removes its own lifecycle hook on
    /// control plane machines, also on mirrors.
    pub etcd_operators: Vec<String>,
    /// The user names of autoscalers that know Cluster API only. They may set the replicas of a
    /// mirrored MachineSet of Cluster API and mark the Machine to delete first. The default is
    /// empty, because the sync controller must write the replicas to the authoritative object.
    pub autoscalers: Vec<String>,
}

impl Default for Config {
    fn default() -> Self {
        Self::of_namespaces(machine_openshift_io::NAMESPACE, cluster_x_k8s_io::NAMESPACE)
    }
}

impl Config {
    /// An installation in these namespaces, with the default names of the service accounts.
    pub fn of_namespaces(machine_api: &str, cluster_api: &str) -> Self {
        let account = |namespace: &str, name: &str| format!("system:serviceaccount:{namespace}:{name}");
        Self {
            machine_api_namespace: machine_api.to_owned(),
            cluster_api_namespace: cluster_api.to_owned(),
            sync_identities: vec![
                account(machine_api, "capstan-controllers"),
                account(machine_api, "capstan-mirroring"),
                account(cluster_api, "capi-controllers"),
            ],
            machine_api_controllers: vec![account(machine_api, "machine-api-controllers")],
            cluster_api_controllers: vec![account(cluster_api, "capi-manager")],
            etcd_operators: vec![account("openshift-etcd-operator", "etcd-operator")],
            autoscalers: Vec::new(),
        }
    }

    /// The namespace of an API's objects.
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

    /// Whether the user is a sync controller. A user who impersonates its service account is not. A
    /// configured identity that is not a service account is recognised by its name.
    pub fn syncs(&self, user: &User) -> bool {
        user.is_itself() && self.sync_identities.contains(&user.name)
    }

    /// Whether the user is a controller of an API: one that is configured, or for Cluster API any
    /// service account of its namespace. A user who impersonates one is not, because the request
    /// has no id of a token. Groups do not count: a user can impersonate a group.
    pub fn controls(&self, api: Api, user: &User) -> bool {
        let is_provider = || {
            let account = user.name.strip_prefix(User::SERVICE_ACCOUNT);
            let namespace = account.and_then(|account| account.split(':').next());
            api == Api::ClusterApi && namespace == Some(self.cluster_api_namespace.as_str())
        };
        let has_credential = user.extra.contains_key(User::CREDENTIAL);
        has_credential && (self.controllers(api).contains(&user.name) || is_provider())
    }

    /// Writes the configured values into the variables, messages and advice of a rule file of this
    /// module.
    pub fn configure(&self, file: &mut RuleFile) {
        let Some(api) = Api::of_rules(&file.name) else { return };
        file.configure("home", &literal(self.namespace(api)));
        file.configure("syncIdentities", &list(&self.sync_identities));
        file.configure("autoscalers", &list(&self.autoscalers));
        file.configure("controllers", &list(self.controllers(api)));
        file.configure("etcdOperators", &list(&self.etcd_operators));
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

/// A string as a CEL literal.
pub fn literal(text: &str) -> String {
    let escaped = text.replace('\\', "\\\\").replace('\'', "\\'");
    format!("'{escaped}'")
}

/// Strings as a CEL list.
fn list(texts: &[String]) -> String {
    let literals: Vec<String> = texts.iter().map(|text| literal(text)).collect();
    format!("[{}]", literals.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_quotes_stays_inside_its_cel_literal() {
        assert_eq!(literal("a' || true || '\\"), "'a\\' || true || \\'\\\\'");
    }
}
