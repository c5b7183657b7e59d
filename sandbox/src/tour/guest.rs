//! The tour in a cluster of the user's. What is there already is never touched: where something of the same name exists, the
//! tour does not begin. What was created is removed again, also after Ctrl-C.

use std::net::{IpAddr, ToSocketAddrs as _, UdpSocket};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use capstan_core::schema::crd;
use serde_json::Value;

use super::{INFRASTRUCTURE, Screen, furnish};
use crate::installation::{Cluster, NAMESPACE, Server, manifests, policies_in_force};

/// An API server that reaches this machine does so at once; one that does not waits for its time limit of five seconds.
const REACH: Duration = Duration::from_secs(20);

/// A cluster of the user's, and what was created in it.
pub struct Guest {
    cluster: Cluster,
    /// What to delete, in the order of its creation: arguments of `kubectl delete`.
    created: Vec<Vec<String>>,
    server: Option<Server>,
    folder: tempfile::TempDir,
}

impl Guest {
    /// Nothing is created yet.
    ///
    /// # Errors
    /// No place for the server's files.
    pub fn new(cluster: Cluster) -> Result<Self> {
        Ok(Self {
            cluster,
            created: Vec::new(),
            server: None,
            folder: tempfile::tempdir().context("making a folder for the server")?,
        })
    }

    /// The cluster.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Installs everything and creates the control plane, which is only an idea of one: no machine is made.
    ///
    /// `address` is that of this machine, as the API server reaches it; without it, one is looked for.
    ///
    /// # Errors
    /// Something of ours is there already, or the cluster refuses something. [`Guest::leave`] removes what was created.
    pub async fn settle(&mut self, capstan: &Path, address: Option<&str>, screen: &mut Screen) -> Result<()> {
        screen.step("Looking whether anything of this is in the cluster already");
        let own: Vec<Value> = documents(&manifests(capstan, "crds").await?)?;
        let policies: Vec<Value> = documents(&manifests(capstan, "policies").await?)?;
        let webhooks: Vec<Value> = documents(&manifests(capstan, "webhooks").await?)?;
        for object in own.iter().chain(&policies).chain(&webhooks) {
            if self.exists(object).await? {
                bail!(
                    "{} {} is in this cluster already: the tour would touch what is in use, and does not begin (nothing was \
                     changed)",
                    text(object, "/kind"),
                    text(object, "/metadata/name")
                );
            }
        }
        screen.step("Creating definitions and policies; all of it is removed at the end");
        for object in own.iter().chain(&crd::foreign_crds()) {
            self.create(object).await?;
        }
        let namespace = serde_json::json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
        self.create(&namespace).await?;
        for object in &policies {
            self.create(object).await?;
        }
        policies_in_force(&self.cluster).await?;
        for object in documents(INFRASTRUCTURE)? {
            self.create(&object).await?;
        }
        self.webhooks(capstan, address, &webhooks, screen).await?;
        screen.step("Creating the objects of a control plane of three machines");
        // They go with the definitions; but finalizers of somebody else's would hold them.
        furnish(&self.cluster).await
    }

    /// Starts the server and registers it, if the API server reaches this machine.
    async fn webhooks(
        &mut self,
        capstan: &Path,
        address: Option<&str>,
        webhooks: &[Value],
        screen: &mut Screen,
    ) -> Result<()> {
        for object in webhooks {
            self.created.push(removal(object));
        }
        let addresses = match address {
            Some(address) => vec![address.to_owned()],
            None => self.addresses().await?,
        };
        for address in &addresses {
            screen.step(&format!(
                "Starting capstan serve on {address}, and registering its webhooks"
            ));
            let server = Server::start(capstan, &self.cluster.flags(), address, self.folder.path()).await?;
            match server.register_within(&self.cluster, REACH).await {
                Ok(()) => {
                    self.server = Some(server);
                    return Ok(());
                }
                Err(error) => {
                    screen.step(&format!(
                        "The API server does not reach it there ({})",
                        error.root_cause()
                    ));
                }
            }
        }
        bail!(
            "the API server of this cluster does not reach this machine at {}: say where it does with ADDRESS=…, or install \
             Capstan in the cluster (manifests/README.md)",
            addresses.join(" or ")
        )
    }

    /// Addresses of this machine, the likeliest first: that from which it speaks to the API server, then that of its way
    /// out. Nothing is sent to find out.
    async fn addresses(&self) -> Result<Vec<String>> {
        let view = [
            "config",
            "view",
            "--minify",
            "-o",
            "jsonpath={.clusters[0].cluster.server}",
        ];
        let server = self.cluster.run(&view, "").await?.checked()?.stdout;
        let authority = server.split("://").nth(1).unwrap_or(&server);
        let authority = authority.split('/').next().unwrap_or(authority);
        let target = if authority
            .rsplit(':')
            .next()
            .is_some_and(|port| port.parse::<u16>().is_ok())
        {
            authority.to_owned()
        } else {
            format!("{authority}:443")
        };
        let mut found: Vec<String> = Vec::new();
        // The second is an address for documentation: it stands for anywhere else.
        for target in [target.as_str(), "192.0.2.1:443"] {
            if let Some(IpAddr::V4(address)) = address_towards(target)
                && !found.contains(&address.to_string())
            {
                found.push(address.to_string());
            }
        }
        if found.is_empty() {
            bail!("this machine has no address that {server} could reach: say one with ADDRESS=…");
        }
        Ok(found)
    }

    async fn exists(&self, object: &Value) -> Result<bool> {
        let get = ["get", "--ignore-not-found", "-o", "name", "-f", "-"];
        let output = self.cluster.run(&get, &object.to_string()).await?;
        // A kind that is not served has no objects.
        if !output.success() && output.stderr.contains("no matches for kind") {
            return Ok(false);
        }
        Ok(!output.checked()?.stdout.trim().is_empty())
    }

    /// Creates an object that is not there, and remembers to remove it.
    async fn create(&mut self, object: &Value) -> Result<()> {
        if self.exists(object).await? {
            return Ok(());
        }
        // Remembered first: a creation whose answer is lost was a creation.
        self.created.push(removal(object));
        self.cluster.apply(&object.to_string()).await
    }

    /// Removes what was created, the last first, and ends the server.
    ///
    /// # Errors
    /// Something could not be removed; the error says what.
    pub async fn leave(mut self, screen: &mut Screen) -> Result<()> {
        if self.created.is_empty() {
            return Ok(());
        }
        screen.step("Removing what was created");
        // Webhooks are the last that was created, so that the rest goes without being judged.
        let mut left = Vec::new();
        while let Some(arguments) = self.created.pop() {
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            let output = self.cluster.run(&arguments, "").await?;
            if !output.success() {
                left.push(format!("kubectl {}: {}", arguments.join(" "), output.stderr.trim()));
            }
        }
        drop(self.server.take());
        if !left.is_empty() {
            bail!("this is left in the cluster:\n{}", left.join("\n"));
        }
        Ok(())
    }
}

fn address_towards(target: &str) -> Option<IpAddr> {
    let target = target.to_socket_addrs().ok()?.next()?;
    let any = if target.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(any).ok()?;
    socket.connect(target).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

fn removal(object: &Value) -> Vec<String> {
    let kind = text(object, "/kind");
    let group = text(object, "/apiVersion")
        .split_once('/')
        .map_or("", |(group, _)| group);
    let version = text(object, "/apiVersion").rsplit('/').next().unwrap_or_default();
    let resource = if group.is_empty() {
        kind.to_owned()
    } else {
        format!("{kind}.{version}.{group}")
    };
    let mut arguments = vec!["delete".to_owned(), resource, text(object, "/metadata/name").to_owned()];
    arguments.extend(["--ignore-not-found", "--timeout=60s"].map(str::to_owned));
    arguments
}

fn documents(manifests: &str) -> Result<Vec<Value>> {
    serde_saphyr::from_multiple(manifests).context("reading manifests")
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}
