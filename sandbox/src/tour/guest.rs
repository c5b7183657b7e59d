//! The tour in a cluster of the user. It never changes an existing object: if an object of the same
//! name exists, the tour does not start. Every object that it created is deleted at the end, also
//! after Ctrl-C.

use std::net::{IpAddr, ToSocketAddrs as _, UdpSocket};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use capstan_core::schema::crd;
use serde_json::Value;

use super::page::Page;
use super::{INFRASTRUCTURE, Screen, create_control_plane};
use crate::installation::{Cluster, NAMESPACE, Server, manifests, policies_in_force};

/// The deadline for the API server to call this machine. It calls within seconds, or waits for its
/// timeout of five seconds.
const REACH: Duration = Duration::from_secs(20);

/// A cluster of the user, and the objects that the tour created in it.
pub struct Guest {
    cluster: Cluster,
    /// The arguments of `kubectl delete` for each created object, in the order of creation.
    created: Vec<Vec<String>>,
    server: Option<Server>,
    page: Option<Page>,
    folder: tempfile::TempDir,
}

impl Guest {
    /// Starts without creating an object.
    ///
    /// # Errors
    /// The folder for the files of the server cannot be created.
    pub fn new(cluster: Cluster) -> Result<Self> {
        Ok(Self {
            cluster,
            created: Vec::new(),
            server: None,
            page: None,
            folder: tempfile::tempdir().context("creating a folder for the server")?,
        })
    }

    /// The cluster.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Installs Capstan, creates the objects of a control plane, and starts the page that shows
    /// them. No instances are created for them.
    ///
    /// `address` is the address at which the API server reaches this machine. Without it, the
    /// addresses of this machine are tried.
    ///
    /// # Errors
    /// An object of Capstan already exists, or the cluster refuses an object. [`Guest::leave`]
    /// deletes the created objects.
    pub async fn settle(&mut self, capstan: &Path, address: Option<&str>, screen: &mut Screen) -> Result<()> {
        screen.step("Checking that the cluster contains no object of Capstan");
        let own: Vec<Value> = documents(&manifests(capstan, "crds").await?)?;
        let policies: Vec<Value> = documents(&manifests(capstan, "policies").await?)?;
        let webhooks: Vec<Value> = documents(&manifests(capstan, "webhooks").await?)?;
        for object in own.iter().chain(&policies).chain(&webhooks) {
            if self.exists(object).await? {
                bail!(
                    "{} {} must not exist in this cluster; the tour does not change existing objects, and nothing was changed",
                    text(object, "/kind"),
                    text(object, "/metadata/name")
                );
            }
        }
        screen.step("Creating CRDs and policies, which are deleted at the end");
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
        // These objects are deleted with their CRDs.
        create_control_plane(&self.cluster).await?;
        self.page
            .insert(Page::start(capstan, &self.cluster).await?)
            .show(screen);
        Ok(())
    }

    /// Shows the address of the page again.
    pub fn show_page(&self, screen: &mut Screen) {
        if let Some(page) = &self.page {
            page.show(screen);
        }
    }

    /// Starts the server and registers its webhooks at the first address at which the API server
    /// reaches this machine.
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
                    screen.step(&format!("The API server cannot connect to it ({})", error.root_cause()));
                }
            }
        }
        bail!(
            "the API server of this cluster must be able to connect to this machine, but cannot at {}: set ADDRESS=… to \
             an address that it reaches, or install Capstan in the cluster (manifests/README.md)",
            addresses.join(" or ")
        )
    }

    /// The addresses of this machine: first the source address of connections to the API server,
    /// then that of connections to the internet. No packet is sent to find them.
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
        // 192.0.2.1 is reserved for documentation and stands for any address on the internet.
        for target in [target.as_str(), "192.0.2.1:443"] {
            if let Some(IpAddr::V4(address)) = address_towards(target)
                && !found.contains(&address.to_string())
            {
                found.push(address.to_string());
            }
        }
        if found.is_empty() {
            bail!("this machine must have an IPv4 address that {server} can reach: set ADDRESS=…");
        }
        Ok(found)
    }

    async fn exists(&self, object: &Value) -> Result<bool> {
        let get = ["get", "--ignore-not-found", "-o", "name", "-f", "-"];
        let output = self.cluster.run(&get, &object.to_string()).await?;
        // There is no object of a kind that is not served.
        if !output.success() && output.stderr.contains("no matches for kind") {
            return Ok(false);
        }
        Ok(!output.checked()?.stdout.trim().is_empty())
    }

    /// Creates an object if it does not exist, and records it for deletion.
    async fn create(&mut self, object: &Value) -> Result<()> {
        if self.exists(object).await? {
            return Ok(());
        }
        // The object is recorded first, because a creation whose answer is lost may have succeeded.
        self.created.push(removal(object));
        self.cluster.apply(&object.to_string()).await
    }

    /// Deletes the created objects in reverse order, and stops the server.
    ///
    /// # Errors
    /// An object cannot be deleted; the error names it.
    pub async fn leave(mut self, screen: &mut Screen) -> Result<()> {
        if self.created.is_empty() {
            return Ok(());
        }
        screen.step("Deleting the created objects");
        // Otherwise the page would show how the objects disappear.
        drop(self.page.take());
        // The webhooks were created last. They are deleted first, so they do not judge the other
        // deletions.
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
            bail!(
                "these objects could not be deleted and are left in the cluster:\n{}",
                left.join("\n")
            );
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
