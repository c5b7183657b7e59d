//! Who speaks to the control plane: kubeconfig files and clients for the administrator and for plain users, and what
//! those may do.

use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use anyhow::{Context, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, RoleRef, Subject};
use kube::api::{Api, ObjectMeta, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};

use super::certificates::Authority;
use super::plane::ControlPlane;

/// The administrator's name.
pub(super) const ADMIN: &str = "admin";
/// The group that may do everything, before any rule is asked.
pub(super) const MASTERS: &str = "system:masters";

impl ControlPlane {
    /// The kubeconfig file of the administrator.
    ///
    /// # Errors
    /// As [`ControlPlane::kubeconfig_for`].
    pub fn kubeconfig(&self) -> Result<PathBuf> {
        self.kubeconfig_for(ADMIN, &[MASTERS])
    }

    /// The kubeconfig file of a user, who is known by a client certificate and may do nothing yet. At most two groups;
    /// `system:authenticated` comes by itself.
    ///
    /// # Errors
    /// More groups, or the file cannot be written.
    pub fn kubeconfig_for(&self, user: &str, groups: &[&str]) -> Result<PathBuf> {
        let key = format!("{user} {groups:?}");
        let mut known = self.kubeconfigs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(path) = known.get(&key) {
            return Ok(path.clone());
        }
        // Not named after the user: names may hold slashes.
        let name = if user == ADMIN {
            "kubeconfig".to_owned()
        } else {
            format!("kubeconfig-{}", known.len())
        };
        let path = self
            .folder
            .write(&name, &kubeconfig(&self.url, &self.authority, user, groups)?)?;
        known.insert(key, path.clone());
        Ok(path)
    }

    /// The kubeconfig file of a service account, with a token of its own, as a pod has it; the service account is made if it
    /// is not there. A client certificate could carry the same name, and so could impersonation, but neither is a token.
    ///
    /// # Errors
    /// The API server refuses, or the file cannot be written.
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
            .with_context(|| format!("making {user}"))?;
        let request = TokenRequest {
            spec: TokenRequestSpec::default(),
            ..TokenRequest::default()
        };
        let answer = accounts
            .create_token_request(name, &PostParams::default(), &request)
            .await
            .with_context(|| format!("asking for a token of {user}"))?;
        let token = answer.status.context("no token was made")?.token;
        let credentials = serde_json::json!({ "token": token });
        let text = kubeconfig_with(&self.url, &self.authority, &user, &credentials)?;
        let mut known = self.kubeconfigs.lock().unwrap_or_else(PoisonError::into_inner);
        let path = self.folder.write(&format!("kubeconfig-{}", known.len()), &text)?;
        let key = format!("{user} by token {}", known.len());
        known.insert(key, path.clone());
        Ok(path)
    }

    /// A client for the administrator. Make one for each runtime: its connections are tasks of the runtime that made
    /// it.
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

    /// A client out of a kubeconfig file: [`ControlPlane::kubeconfig_of_service_account`].
    ///
    /// # Errors
    /// The file cannot be read.
    pub async fn client_of_kubeconfig(&self, path: &Path) -> Result<kube::Client> {
        let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        client(&text).await
    }

    /// Binds a user to a ClusterRole that exists, such as `view`, in the whole cluster. Harmless when done twice.
    ///
    /// # Errors
    /// The API server refuses.
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

    /// Lets a user do `verbs` on `resources` of one API group in the whole cluster, beside what was granted before.
    /// Subresources are named as in RBAC: `controlplanemachinesets/scale`.
    ///
    /// # Errors
    /// The API server refuses.
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

    /// Makes a new namespace, whose name starts with `prefix`, for a test that shares the control plane with others.
    ///
    /// # Errors
    /// The API server refuses.
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
            .context("making a namespace")?;
        made.metadata.name.context("a namespace without a name")
    }
}

/// The text of a kubeconfig file, complete in itself.
pub(super) fn kubeconfig(url: &str, authority: &Authority, user: &str, groups: &[&str]) -> Result<String> {
    let pair = authority.user(user, groups)?;
    let credentials = serde_json::json!({
        "client-certificate-data": STANDARD.encode(pair.certificate),
        "client-key-data": STANDARD.encode(pair.key),
    });
    kubeconfig_with(url, authority, user, &credentials)
}

fn kubeconfig_with(url: &str, authority: &Authority, user: &str, credentials: &serde_json::Value) -> Result<String> {
    // JSON is YAML, and quotes names as they need it.
    let text = serde_json::to_string_pretty(&serde_json::json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "capstan-sandbox",
        "clusters": [{"name": "capstan-sandbox", "cluster": {
            "server": url,
            "certificate-authority-data": STANDARD.encode(authority.certificate()),
        }}],
        "users": [{"name": user, "user": credentials}],
        "contexts": [{"name": "capstan-sandbox", "context": {"cluster": "capstan-sandbox", "user": user}}],
    }));
    text.context("writing a kubeconfig")
}

/// A client out of the text of a kubeconfig file, whatever the environment says.
pub(super) async fn client(kubeconfig: &str) -> Result<kube::Client> {
    let kubeconfig = Kubeconfig::from_yaml(kubeconfig).context("reading a kubeconfig")?;
    let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .context("reading a kubeconfig")?;
    // A proxy of the user's does not know our loopback.
    config.proxy_url = None;
    // A test sees the answer that was given, not the one after three more tries.
    config.default_retry = false;
    kube::Client::try_from(config).context("making a client")
}

fn as_sandbox() -> PatchParams {
    PatchParams::apply("capstan-sandbox").force()
}

/// RBAC takes names that could stand in a path: all that it would refuse becomes a dash.
fn object_name(text: &str) -> String {
    text.chars()
        .map(|letter| if matches!(letter, '/' | '%' | '*') { '-' } else { letter })
        .collect()
}
