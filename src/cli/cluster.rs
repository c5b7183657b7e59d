//! Flags that several commands share: the cluster to connect to, and the namespaces and users in
//! it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use axum::http::Uri;
use axum::http::uri::{PathAndQuery, Scheme};
use capstan_core::admission::Options;
use capstan_core::api::cluster_x_k8s_io;
use capstan_core::api::machine_openshift_io::NAMESPACE;
use capstan_core::authority::config::Config;
use capstan_core::model::is_subdomain;
use kube::client::ClientBuilder;
use kube::client::retry::RetryPolicy;
use kube::config::{KubeConfigOptions, Kubeconfig};
use tower::buffer::BufferLayer;
use tower::retry::RetryLayer;

use super::refusal::{has_no_status, refusal};
use crate::runtime::{Credentials, Watches};

/// How long a connection of a request may be silent.
const SILENT: Duration = Duration::from_secs(295);

/// The most requests of a command at once.
const REQUESTS: usize = 64;

/// The timeout of the first connection to a cluster.
pub(super) const CONNECT: Duration = Duration::from_secs(10);

/// The cluster to connect to.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Cluster {
    /// Kubeconfig file. The default is KUBECONFIG, ~/.kube/config, or the service
    /// account of the pod.
    #[arg(long, value_name = "FILE", help_heading = "Cluster")]
    pub kubeconfig: Option<PathBuf>,
    /// Context in the kubeconfig. The default is its current context.
    #[arg(long, value_name = "NAME", help_heading = "Cluster")]
    pub context: Option<String>,
}

impl Cluster {
    /// Returns a client for the cluster. It does not connect, and it sends each request once: the
    /// caller repeats what failed, because it knows whether the request is still right.
    ///
    /// # Errors
    /// The configuration cannot be read, or it does not describe a usable cluster.
    pub async fn client(&self) -> anyhow::Result<kube::Client> {
        client_of(self.config().await?)
    }

    /// As [`Cluster::client`], with metrics of its watches and of its credentials.
    ///
    /// # Errors
    /// As for [`Cluster::client`].
    pub(super) async fn watched_client(
        &self,
        watches: &Watches,
        credentials: &Credentials,
    ) -> anyhow::Result<kube::Client> {
        let builder = ClientBuilder::try_from(self.config().await?).context("connecting to the API server")?;
        Ok(builder.with_layer(&credentials.layer()).with_layer(watches).build())
    }

    /// Connects to the cluster, for a command that a user waits for. Each attempt of a request ends
    /// within the timeout, and one that is refused with 429, 503, or 504 is repeated three times
    /// within four seconds. Watches of it end too, so it is not for a watch.
    ///
    /// # Errors
    /// The API server does not respond within the timeout; the error is one sentence.
    pub(super) async fn connect(&self, timeout: Duration) -> anyhow::Result<Connection> {
        let mut config = self.config().await?;
        config.connect_timeout = Some(timeout);
        config.read_timeout = Some(timeout);
        config.write_timeout = Some(timeout);
        let address = config.cluster_url.to_string();
        let address = address.trim_end_matches('/');
        let retries = RetryLayer::new(RetryPolicy::default());
        let plugin = plugin(&config);
        let builder = ClientBuilder::try_from(config).map_err(|error| no_client(&error, plugin.as_deref()))?;
        let client = builder
            .with_layer(&BufferLayer::new(REQUESTS))
            .with_layer(&retries)
            .build();
        let late = || format!("the API server at {address} did not respond within {timeout:?}");
        match tokio::time::timeout(timeout, client.apiserver_version()).await {
            Ok(Ok(version)) => Ok(Connection {
                client,
                version: version.git_version.clone(),
                minor: minor(&version.major, &version.minor),
            }),
            Ok(Err(kube::Error::Api(status)))
                if has_no_status(&status) && (status.code == 429 || status.code >= 500) =>
            {
                bail!(
                    "the server at {address} answered {} to GET /version: the API server, or a proxy before it, is \
                 overloaded or does not work; try again later",
                    status.code
                )
            }
            Ok(Err(kube::Error::Api(status))) if has_no_status(&status) => bail!(
                "the server at {address} is no API server of Kubernetes: it answered {} to GET /version; correct the \
                 address in the kubeconfig",
                status.code
            ),
            Ok(Err(kube::Error::Api(status))) => {
                bail!(
                    "the API server at {address} refused to report its version: {}",
                    refusal(&status)
                )
            }
            Ok(Err(kube::Error::SerdeError(error))) => bail!(
                "the server at {address} is no API server of Kubernetes: its answer to GET /version is not JSON with a \
                 version ({error}); correct the address in the kubeconfig"
            ),
            Ok(Err(error)) if is_timeout(&error) => bail!(late()),
            Ok(Err(error)) => bail!("cannot reach the API server at {address}: {}", last_cause(&error)),
            Err(_elapsed) => bail!(late()),
        }
    }

    /// The flags of `kubectl` that select this cluster, each after a space, for a shell; empty for
    /// the current context.
    pub(super) fn selection(&self) -> String {
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "._:/@-+".contains(letter);
        let quoted = |value: &str| match value.chars().all(is_plain) {
            true => value.to_owned(),
            false => format!("'{}'", value.replace('\'', r"'\''")),
        };
        let flag = |name: &str, value: Option<&str>| {
            value.map_or_else(String::new, |value| format!(" --{name} {}", quoted(value)))
        };
        let path = self.kubeconfig.as_deref().map(std::path::Path::to_string_lossy);
        flag("kubeconfig", path.as_deref()) + &flag("context", self.context.as_deref())
    }

    /// The cluster in words: the address of its API server, with the context if one is given.
    ///
    /// # Errors
    /// The configuration cannot be read.
    pub(super) async fn title(&self) -> anyhow::Result<String> {
        let address = self.config().await?.cluster_url.to_string();
        let address = address.trim_end_matches('/');
        Ok(match &self.context {
            Some(context) => format!("{context} ({address})"),
            None => address.to_owned(),
        })
    }

    async fn config(&self) -> anyhow::Result<kube::Config> {
        let mut config = self.read_config().await?;
        // The retries of the library last for minutes without a log line. A step would be stored
        // long after the state was read that it was decided from.
        config.default_retry = false;
        // A watch ends after 290 s. Without a limit, a request without an answer never ends.
        config.read_timeout = Some(SILENT);
        config.cluster_url = with_scheme(config.cluster_url.clone(), uses_tls(&config))?;
        Ok(config)
    }

    async fn read_config(&self) -> anyhow::Result<kube::Config> {
        let options = KubeConfigOptions {
            context: self.context.clone(),
            ..KubeConfigOptions::default()
        };
        if self.kubeconfig.is_none()
            && let Some(kubeconfig) = of_list(std::env::var_os("KUBECONFIG"))?
        {
            let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await;
            return config.context("reading the files of KUBECONFIG");
        }
        match (&self.kubeconfig, &self.context) {
            (None, None) => kube::Config::infer().await.map_err(|error| no_cluster(&error)),
            (None, Some(_)) => kube::Config::from_kubeconfig(&options)
                .await
                .context("reading the kubeconfig"),
            (Some(path), _) => {
                let reading = || format!("reading {}", path.display());
                let kubeconfig = Kubeconfig::read_from(path).with_context(reading)?;
                kube::Config::from_custom_kubeconfig(kubeconfig, &options)
                    .await
                    .with_context(reading)
            }
        }
    }
}

/// The kubeconfigs of a list of files, merged. As for kubectl, a file of a list may be missing, and
/// an empty current context counts as none. `None` if no file exists.
fn of_list(files: Option<std::ffi::OsString>) -> anyhow::Result<Option<Kubeconfig>> {
    let files = files.unwrap_or_default();
    let files: Vec<PathBuf> = std::env::split_paths(&files)
        .filter(|file| !file.as_os_str().is_empty())
        .collect();
    let mut merged = None;
    // A file that cannot be read is an error: another file may name another cluster.
    for file in files.iter().filter(|file| !matches!(file.try_exists(), Ok(false))) {
        let mut read = Kubeconfig::read_from(file).with_context(|| format!("reading {}", file.display()))?;
        read.current_context = read.current_context.filter(|context| !context.is_empty());
        let all = merged.take().unwrap_or_default();
        merged = Some(Kubeconfig::merge(all, read).with_context(|| format!("merging {}", file.display()))?);
    }
    Ok(merged)
}

/// A client. It does not connect, and runs the credential plugin of the kubeconfig if there is one.
fn client_of(config: kube::Config) -> anyhow::Result<kube::Client> {
    let plugin = plugin(&config);
    kube::Client::try_from(config).map_err(|error| no_client(&error, plugin.as_deref()))
}

/// The command of the credential plugin.
fn plugin(config: &kube::Config) -> Option<String> {
    config.auth_info.exec.as_ref().and_then(|exec| exec.command.clone())
}

fn no_client(error: &kube::Error, plugin: Option<&str>) -> anyhow::Error {
    match (error, plugin) {
        (kube::Error::Auth(_), Some(plugin)) => anyhow!(
            "the credential plugin {plugin:?} of the kubeconfig must run and print credentials: {}",
            last_cause(error)
        ),
        _ => anyhow!("connecting to the API server: {}", last_cause(error)),
    }
}

/// Whether a kubeconfig has settings that only TLS uses.
fn uses_tls(config: &kube::Config) -> bool {
    let user = &config.auth_info;
    config.root_cert.is_some()
        || config.accept_invalid_certs
        || user.client_certificate.is_some()
        || user.client_certificate_data.is_some()
}

/// The address of an API server with a scheme. Without one, kubectl uses HTTPS if the kubeconfig
/// has settings for TLS, and HTTP otherwise; so does Capstan.
fn with_scheme(address: Uri, has_tls: bool) -> anyhow::Result<Uri> {
    if address.scheme().is_some() {
        return Ok(address);
    }
    let scheme = if has_tls { Scheme::HTTPS } else { Scheme::HTTP };
    let text = address.to_string();
    let mut parts = address.into_parts();
    parts.scheme = Some(scheme);
    parts
        .path_and_query
        .get_or_insert_with(|| PathAndQuery::from_static("/"));
    Uri::from_parts(parts).with_context(|| {
        format!("the server {text:?} of the kubeconfig must be an address such as https://127.0.0.1:6443")
    })
}

/// A connection to an API server that responded.
pub(super) struct Connection {
    pub(super) client: kube::Client,
    /// The version that it reports, for example `v1.36.3`.
    pub(super) version: String,
    /// The minor version of Kubernetes 1; none if it cannot be read.
    pub(super) minor: Option<u32>,
}

/// The minor version of Kubernetes 1. Some platforms append a plus sign.
fn minor(major: &str, minor: &str) -> Option<u32> {
    let digits: String = minor.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok().filter(|_| major == "1")
}

/// The error where neither a kubeconfig nor a service account tells the cluster. It contains its
/// cause once.
fn no_cluster(error: &dyn std::error::Error) -> anyhow::Error {
    let cause = error.source().unwrap_or(error);
    anyhow!(
        "no cluster is known, and this is no pod: {cause}; set --kubeconfig or KUBECONFIG, or give the objects in files \
         with -f, if the command has this flag"
    )
}

fn is_timeout(error: &kube::Error) -> bool {
    let text = format!("{error:?}");
    text.contains("TimedOut") || text.contains("Elapsed")
}

/// The cause that names the operating system's error, without the layers of the client.
fn last_cause(error: &dyn std::error::Error) -> String {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    last.to_string()
}

/// The objects that Capstan guards and manages.
#[derive(Clone, Debug, clap::Args)]
pub struct Scope {
    /// Namespace of the Machine API.
    #[arg(short, long, default_value = NAMESPACE, value_name = "NAMESPACE", value_parser = namespace,
        help_heading = "Cluster")]
    pub namespace: String,
    /// Override feature gates of the cluster, for example
    /// CPMSMachineNamePrefix=true,CPMSRecreate=true.
    #[arg(long, value_name = "NAME=BOOL", value_delimiter = ',', value_parser = feature_gate, help_heading = "Cluster")]
    pub feature_gates: Vec<(String, bool)>,
    /// Version of the platform: it selects the entry in the FeatureGate, and the
    /// ClusterOperator reports it.
    #[arg(
        long,
        env = "RELEASE_VERSION",
        default_value = "",
        hide_default_value = true,
        value_name = "VERSION",
        help_heading = "Cluster"
    )]
    pub release_version: String,
    /// Objects that exist in both APIs.
    #[command(flatten)]
    pub authority: Authority,
}

/// What happens to a request that breaks a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Enforcement {
    /// It is refused.
    #[default]
    Deny,
    /// It is allowed with a warning, for a trial.
    Warn,
}

/// The location of mirrored objects, and the users that may write mirrors.
#[derive(Clone, Debug, clap::Args)]
pub struct Authority {
    /// Namespace of Cluster API.
    #[arg(long, default_value = cluster_x_k8s_io::NAMESPACE, value_name = "NAMESPACE", value_parser = namespace,
        help_heading = "Cluster")]
    pub cluster_api_namespace: String,
    /// User that synchronizes mirrors and may write them; may be repeated. The default
    /// is the service accounts of Capstan's controllers, and OpenShift's
    /// capi-controllers.
    #[arg(long, value_name = "USER", value_parser = identity, help_heading = "Cluster")]
    pub sync_identity: Vec<String>,
    /// User, such as an autoscaler, that may scale a Cluster API MachineSet while the
    /// Machine API is authoritative; may be repeated. The synchronizing user must copy
    /// the number to the Machine API.
    #[arg(long, value_name = "USER", value_parser = identity, help_heading = "Cluster")]
    pub autoscaler_identity: Vec<String>,
    /// User that adds and removes the lifecycle hook of etcd on control plane machines,
    /// also on mirrors; may be repeated. The default is OpenShift's etcd operator.
    #[arg(long, value_name = "USER", value_parser = identity, help_heading = "Cluster")]
    pub hook_identity: Vec<String>,
}

impl Default for Authority {
    fn default() -> Self {
        Self {
            cluster_api_namespace: cluster_x_k8s_io::NAMESPACE.to_owned(),
            sync_identity: Vec::new(),
            autoscaler_identity: Vec::new(),
            hook_identity: Vec::new(),
        }
    }
}

impl Authority {
    /// The flags as core's configuration.
    pub fn config(&self, machine_api_namespace: &str) -> Config {
        let mut config = Config::of_namespaces(machine_api_namespace, &self.cluster_api_namespace);
        if !self.sync_identity.is_empty() {
            config.sync_identities.clone_from(&self.sync_identity);
        }
        config.autoscalers.clone_from(&self.autoscaler_identity);
        if !self.hook_identity.is_empty() {
            config.etcd_operators.clone_from(&self.hook_identity);
        }
        config
    }
}

impl Scope {
    /// The flags as core's options.
    pub fn options(&self) -> Options {
        Options {
            authority: self.authority.config(&self.namespace),
            namespace: self.namespace.clone(),
            feature_gates: self.feature_gates.iter().cloned().collect::<BTreeMap<_, _>>(),
            release_version: self.release_version.clone(),
            ..Options::default()
        }
    }
}

/// Parses the name of a namespace.
///
/// # Errors
/// An API server refuses a namespace with this name.
pub(super) fn namespace(text: &str) -> Result<String, &'static str> {
    if is_subdomain(text) && text.len() <= 63 && !text.contains('.') {
        Ok(text.to_owned())
    } else {
        Err("must be the name of a namespace: lowercase letters, digits and hyphens, at most 63")
    }
}

/// Parses the name of a user as the API server reports it. It may contain any other character.
///
/// # Errors
/// The name is empty, or has control characters or white space at an end. No user is known to have
/// such a name, so that it is an error in the command line.
pub(super) fn identity(text: &str) -> Result<String, &'static str> {
    if text.is_empty() {
        Err("must be the name of a user; it is empty, and the API server reports no such user")
    } else if text.chars().any(char::is_control) || text.trim() != text {
        Err("must be the name of a user, without control characters, and without white space at its ends")
    } else {
        Ok(text.to_owned())
    }
}

/// Parses `NAME=true` or `NAME=false`.
///
/// # Errors
/// The text has another form.
pub fn feature_gate(text: &str) -> Result<(String, bool), String> {
    let (name, on) = match text.split_once('=') {
        Some((name, "true")) => (name, true),
        Some((name, "false")) => (name, false),
        _ => return Err(String::from("must be NAME=true or NAME=false")),
    };
    if !Options::FEATURE_GATES.contains(&name) {
        return Err(format!("must name one of {}", Options::FEATURE_GATES.join(", ")));
    }
    Ok((name.to_owned(), on))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    use axum::http::StatusCode;
    use kube::api::{ListParams, PostParams};

    use super::{Authority, Cluster, Credentials, Watches, feature_gate, identity, with_scheme};

    /// An API server that reports its version and refuses all other requests, and their number.
    async fn overloaded(folder: &std::path::Path) -> (Cluster, Arc<AtomicU64>) {
        let requests = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&requests);
        let version = serde_json::json!({
            "major": "1", "minor": "36", "gitVersion": "v1.36.0", "gitCommit": "", "gitTreeState": "",
            "buildDate": "", "goVersion": "", "compiler": "", "platform": "",
        });
        let server = axum::Router::new()
            .route("/version", axum::routing::get(async move || version.to_string()))
            .fallback(async move || {
                counted.fetch_add(1, Ordering::Relaxed);
                StatusCode::SERVICE_UNAVAILABLE
            });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, server).await });
        let path = folder.join("kubeconfig");
        let kubeconfig = serde_json::json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c", "users": [],
            "clusters": [{"name": "c", "cluster": {"server": address}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": ""}}],
        });
        std::fs::write(&path, kubeconfig.to_string()).unwrap();
        let cluster = Cluster {
            kubeconfig: Some(path),
            context: None,
        };
        (cluster, requests)
    }

    #[test]
    fn v290_a_file_of_a_list_of_kubeconfigs_may_be_missing() {
        let folder = tempfile::tempdir().unwrap();
        let [first, second, missing] = ["a", "b", "missing"].map(|name| folder.path().join(name));
        for (path, name) in [(&first, "a"), (&second, "b")] {
            let kubeconfig = serde_json::json!({
                "apiVersion": "v1", "kind": "Config", "current-context": name,
                "clusters": [{"name": name, "cluster": {"server": "https://127.0.0.1:1"}}],
            });
            std::fs::write(path, kubeconfig.to_string()).unwrap();
        }
        let merged = |files: &[&std::path::PathBuf]| super::of_list(Some(std::env::join_paths(files).unwrap()));
        let all = merged(&[&missing, &first, &second]).unwrap().unwrap();
        assert_eq!(all.current_context.as_deref(), Some("a"));
        assert_eq!(all.clusters.len(), 2);
        assert!(merged(&[&missing, &missing]).unwrap().is_none());
        let without_context = std::fs::read_to_string(&first).unwrap().replace("\"a\"", "\"\"");
        std::fs::write(&missing, without_context).unwrap();
        let all = merged(&[&missing, &second]).unwrap().unwrap();
        assert_eq!(all.current_context.as_deref(), Some("b"));
        std::fs::write(&second, "no: [yaml").unwrap();
        let error = merged(&[&first, &second]).unwrap_err().to_string();
        assert!(error.contains("/b"), "{error}");
    }

    fn is_unavailable<T>(answer: &kube::Result<T>) -> bool {
        matches!(answer, Err(kube::Error::Api(status)) if status.code == 503)
    }

    #[tokio::test]
    async fn v288_a_command_repeats_a_refused_request_three_times_and_then_reports_it() {
        let folder = tempfile::tempdir().unwrap();
        let (cluster, requests) = overloaded(folder.path()).await;
        let connection = cluster.connect(Duration::from_secs(10)).await.unwrap();
        let maps: kube::Api<k8s_openapi::api::core::v1::ConfigMap> = kube::Api::all(connection.client);
        let listed = maps.list(&ListParams::default()).await;
        assert!(is_unavailable(&listed), "{:?}", listed.err());
        assert_eq!(requests.load(Ordering::Relaxed), 4);
    }

    #[tokio::test]
    async fn v276_a_write_that_an_overloaded_api_server_refuses_is_sent_once() {
        let folder = tempfile::tempdir().unwrap();
        let (cluster, requests) = overloaded(folder.path()).await;
        let registry = &mut prometheus_client::registry::Registry::default();
        let (watches, credentials) = (Watches::register(registry), Credentials::register(registry));

        for client in [
            cluster.client().await.unwrap(),
            cluster.watched_client(&watches, &credentials).await.unwrap(),
        ] {
            requests.store(0, Ordering::Relaxed);
            let maps: kube::Api<k8s_openapi::api::core::v1::ConfigMap> = kube::Api::namespaced(client, "default");
            let created = maps.create(&PostParams::default(), &Default::default()).await;
            assert!(is_unavailable(&created), "{created:?}");
            assert_eq!(requests.load(Ordering::Relaxed), 1);
        }
    }

    #[test]
    fn the_user_of_the_hook_replaces_the_etcd_operator_of_openshift() {
        let config = |users: &[&str]| {
            let authority = Authority {
                hook_identity: users.iter().map(|user| (*user).to_owned()).collect(),
                ..Authority::default()
            };
            authority.config("openshift-machine-api").etcd_operators
        };
        assert_eq!(
            config(&[]),
            ["system:serviceaccount:openshift-etcd-operator:etcd-operator"]
        );
        assert_eq!(config(&["system:serviceaccount:a:b"]), ["system:serviceaccount:a:b"]);
    }

    #[test]
    fn an_identity_is_any_name_without_control_characters() {
        for name in [
            "system:serviceaccount:a:b",
            "oidc:Jane Doe, Ops # 1",
            "$(x)",
            "a' || 'b",
        ] {
            assert_eq!(identity(name), Ok(name.to_owned()));
        }
        for name in ["", " ", "a ", "a\nb", "a\u{7f}"] {
            assert!(identity(name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn w54_an_address_without_a_scheme_has_that_of_kubectl() {
        let address = |text: &str, has_tls| with_scheme(text.parse().unwrap(), has_tls).map(|uri| uri.to_string());
        assert_eq!(address("127.0.0.1:6443", true).unwrap(), "https://127.0.0.1:6443/");
        assert_eq!(address("api.example.org", false).unwrap(), "http://api.example.org/");
        assert_eq!(address("http://a:1/base", true).unwrap(), "http://a:1/base");
        let error = address("/base", true).unwrap_err().to_string();
        assert!(
            error.starts_with("the server \"/base\" of the kubeconfig must be"),
            "{error}"
        );
    }

    #[test]
    fn a_feature_gate_is_a_name_with_true_or_false() {
        assert_eq!(feature_gate("CPMSRecreate=true"), Ok(("CPMSRecreate".to_owned(), true)));
        assert!(
            feature_gate("CPMSRecreate").is_err()
                && feature_gate("CPMSRecreate=yes").is_err()
                && feature_gate("=true").is_err()
        );
    }
}
