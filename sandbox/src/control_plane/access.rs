//! Users of the control plane: their kubeconfig files, clients and permissions.

use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use anyhow::{Context, Result};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, RoleRef, Subject};
use kube::api::{Api, ObjectMeta, Patch, PatchParams, PostParams};

use super::kubeconfig::{ADMIN, MASTERS, client, with_certificate, with_credentials};
use super::plane::ControlPlane;

impl ControlPlane {
    /// The kubeconfig file of the administrator.
    ///
    /// # Errors
    /// As [`ControlPlane::kubeconfig_for`].
    pub fn kubeconfig(&self) -> Result<PathBuf> {
        self.kubeconfig_for(ADMIN, &[MASTERS])
    }

    /// The kubeconfig file of a user with a client certificate. A new user has no permissions. A
    /// user has at most two groups; the API server adds `system:authenticated`.
    ///
    /// # Errors
    /// There are more than two groups, or the file cannot be written.
    pub fn kubeconfig_for(&self, user: &str, groups: &[&str]) -> Result<PathBuf> {
        let key = format!("{user} {groups:?}");
        let mut known = self.kubeconfigs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(path) = known.get(&key) {
            return Ok(path.clone());
        }
        // The file is not named after the user: a user name may contain slashes.
        let name = if user == ADMIN {
            "kubeconfig".to_owned()
        } else {
            format!("kubeconfig-{}", known.len())
        };
        let path = self
            .folder
            .write(&name, &with_certificate(&self.url, &self.authority, user, groups)?)?;
        known.insert(key, path.clone());
        Ok(path)
    }

    /// The kubeconfig file of a service account, with a token as a pod has it. The service account
    /// is created if it does not exist. A client certificate with the name of the service account
    /// would not do: rules tell a token from a name.
    ///
    /// # Errors
    /// The API server refuses a request, or the file cannot be written.
    pub async fn kubeconfig_of_service_account(&self, namespace: &str, name: &str) -> Result<PathBuf> {
        let user = format!("system:serviceaccount:{namespace}:{name}");
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client().await?, namespace);
        let account = ServiceAccount {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                ..ObjectMeta::default()
            },
            ..ServiceAccount::default()
        };
        accounts
            .patch(name, &as_sandbox(), &Patch::Apply(&account))
            .await
            .with_context(|| format!("creating {user}"))?;
        let request = TokenRequest {
            spec: TokenRequestSpec::default(),
            ..TokenRequest::default()
        };
        let answer = accounts
            .create_token_request(name, &PostParams::default(), &request)
            .await
            .with_context(|| format!("requesting a token of {user}"))?;
        let token = answer.status.context("the API server returned no token")?.token;
        let credentials = serde_json::json!({ "token": token });
        let text = with_credentials(&self.url, &self.authority, &user, &credentials)?;
        let mut known = self.kubeconfigs.lock().unwrap_or_else(PoisonError::into_inner);
        let path = self.folder.write(&format!("kubeconfig-{}", known.len()), &text)?;
        let key = format!("{user} by token {}", known.len());
        known.insert(key, path.clone());
        Ok(path)
    }

    /// A client for the administrator. Each runtime needs a client of its own, because the
    /// connections of a client are tasks of the runtime that created it.
    ///
    /// # Errors
    /// The kubeconfig cannot be written or read.
    pub async fn client(&self) -> Result<kube::Client> {
        self.client_for(ADMIN, &[MASTERS]).await
    }

    /// A client for a user.
    ///
    /// # Errors
    /// As [`ControlPlane::kubeconfig_for`].
    pub async fn client_for(&self, user: &str, groups: &[&str]) -> Result<kube::Client> {
        let path = self.kubeconfig_for(user, groups)?;
        self.client_of_kubeconfig(&path).await
    }

    /// A client from a kubeconfig file, such as [`ControlPlane::kubeconfig_of_service_account`].
    ///
    /// # Errors
    /// The file cannot be read.
    pub async fn client_of_kubeconfig(&self, path: &Path) -> Result<kube::Client> {
        let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        client(&text).await
    }

    /// Binds a user to an existing ClusterRole, such as `view`, in the whole cluster. The call is
    /// idempotent.
    ///
    /// # Errors
    /// The API server refuses the binding.
    pub async fn grant(&self, user: &str, cluster_role: &str) -> Result<()> {
        let name = object_name(&format!("{user}-{cluster_role}"));
        let binding = ClusterRoleBinding {
            metadata: ObjectMeta {
                name: Some(name.clone()),
                ..ObjectMeta::default()
            },
            role_ref: RoleRef {
                api_group: "rbac.authorization.k8s.io".to_owned(),
                kind: "ClusterRole".to_owned(),
                name: cluster_role.to_owned(),
            },
            subjects: Some(vec![Subject {
                api_group: Some("rbac.authorization.k8s.io".to_owned()),
                kind: "User".to_owned(),
                name: user.to_owned(),
                namespace: None,
            }]),
        };
        let bindings: Api<ClusterRoleBinding> = Api::all(self.client().await?);
        bindings
            .patch(&name, &as_sandbox(), &Patch::Apply(&binding))
            .await
            .with_context(|| format!("binding {user} to {cluster_role}"))?;
        Ok(())
    }

    /// Allows a user `verbs` on `resources` of one API group in the whole cluster, in addition to
    /// earlier permissions. Subresources are named as in RBAC: `controlplanemachinesets/scale`.
    ///
    /// # Errors
    /// The API server refuses the role or the binding.
    pub async fn allow(&self, user: &str, verbs: &[&str], group: &str, resources: &[&str]) -> Result<()> {
        let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<String>>();
        let name = object_name(&format!("{user}-{}-{group}-{}", verbs.join("-"), resources.join("-")));
        let role = ClusterRole {
            metadata: ObjectMeta {
                name: Some(name.clone()),
                ..ObjectMeta::default()
            },
            rules: Some(vec![PolicyRule {
                api_groups: Some(owned(&[group])),
                resources: Some(owned(resources)),
                verbs: owned(verbs),
                ..PolicyRule::default()
            }]),
            aggregation_rule: None,
        };
        let roles: Api<ClusterRole> = Api::all(self.client().await?);
        roles
            .patch(&name, &as_sandbox(), &Patch::Apply(&role))
            .await
            .with_context(|| format!("allowing {user} to {verbs:?} {resources:?}"))?;
        self.grant(user, &name).await
    }

    /// Creates a namespace with a generated name that starts with `prefix`. Tests that share a
    /// control plane each use one.
    ///
    /// # Errors
    /// The API server refuses the namespace.
    pub async fn namespace(&self, prefix: &str) -> Result<String> {
        let namespace = Namespace {
            metadata: ObjectMeta {
                generate_name: Some(format!("{prefix}-")),
                ..ObjectMeta::default()
            },
            ..Namespace::default()
        };
        let namespaces: Api<Namespace> = Api::all(self.client().await?);
        let made = namespaces
            .create(&PostParams::default(), &namespace)
            .await
            .context("creating a namespace")?;
        made.metadata.name.context("the created namespace has no name")
    }
}

fn as_sandbox() -> PatchParams {
    PatchParams::apply("capstan-sandbox").force()
}

/// Makes a name that RBAC accepts: it replaces the characters that a path segment cannot contain by
/// dashes.
fn object_name(text: &str) -> String {
    text.chars()
        .map(|letter| if matches!(letter, '/' | '%' | '*') { '-' } else { letter })
        .collect()
}
