//! A stand-in for the webhooks of OpenShift's Machine API: `sandbox/neighbours/machine-webhook`.
//!
//! The operator that has the real webhooks is not a published module. The stand-in uses OpenShift's
//! Go types, and sets the defaults and makes the refusals that were observed on the real webhooks.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::programs::{self, Server};
use crate::control_plane::{ControlPlane, wait_until};

/// The deadline until the API server calls the webhooks.
const SOON: Duration = Duration::from_secs(60);

/// The name of the module and of its program.
const NAME: &str = "machine-webhook";

/// The cluster that the webhooks serve. They read it when they start.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cluster {
    /// The platform, as in the Infrastructure object.
    pub platform: String,
    /// The infrastructureName.
    pub infrastructure_name: String,
    /// The AWS region.
    pub region: String,
    /// Whether the DNS configuration has a public zone.
    pub public_zone: bool,
}

/// A provider spec that a Machine is created with.
#[derive(Clone, Debug, Serialize)]
pub struct Case {
    /// The cluster.
    #[serde(flatten)]
    pub cluster: Cluster,
    /// The labels of the Machine.
    pub labels: Value,
    /// The provider spec.
    pub value: Value,
}

/// The result of a case.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Outcome {
    /// The stored provider spec; none if the creation is refused.
    pub stored: Option<Value>,
    /// Why the creation is refused.
    pub refusals: Vec<String>,
    /// The warnings.
    pub warnings: Vec<String>,
}

/// Builds the program if it is missing.
pub(super) fn build() -> Result<()> {
    programs::program(NAME).map(drop)
}

/// Runs cases without an API server.
///
/// # Errors
/// The program cannot be built, or fails.
pub fn run(cases: &[Case]) -> Result<Vec<Outcome>> {
    let mut child = Command::new(programs::program(NAME)?)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("starting the Machine webhook")?;
    let mut input = child.stdin.take().context("the Machine webhook has no input")?;
    let lines: Vec<String> = cases.iter().map(serde_json::to_string).collect::<Result<_, _>>()?;
    // Written by another thread, because the program answers before it has read everything.
    let writer = std::thread::spawn(move || input.write_all(lines.join("\n").as_bytes()));
    let output = child.wait_with_output().context("waiting for the Machine webhook")?;
    if !output.status.success() || writer.join().is_err() {
        bail!("the Machine webhook failed ({})", output.status);
    }
    let text = String::from_utf8(output.stdout).context("reading the answer of the Machine webhook")?;
    text.lines()
        .map(|line| serde_json::from_str(line).with_context(|| format!("parsing {line}")))
        .collect()
}

/// The running webhooks. They stop when this is dropped; the configurations stay registered.
#[derive(Debug)]
pub struct MachineWebhook {
    _server: Server,
}

impl MachineWebhook {
    /// Starts the webhooks beside a control plane that serves the Machine API, registers them, and
    /// waits until the API server calls them.
    ///
    /// # Errors
    /// The program cannot be built or started, or the API server does not call the webhooks.
    pub async fn start(plane: &ControlPlane, cluster: &Cluster) -> Result<Self> {
        let arguments = [
            format!("--platform={}", cluster.platform),
            format!("--infrastructure-name={}", cluster.infrastructure_name),
            format!("--region={}", cluster.region),
            format!("--public-zone={}", cluster.public_zone),
        ];
        let server = programs::serve(plane, NAME, &arguments).await?;
        let manifests = configurations().map(|one| one.to_string()).join("\n---\n");
        plane
            .register_webhooks(&manifests, server.port, &server.authority)
            .await?;
        in_force(plane, cluster).await?;
        Ok(Self { _server: server })
    }
}

/// The webhook configurations, as OpenShift registers them: mutation on creation only, and
/// `failurePolicy: Ignore`.
fn configurations() -> [Value; 2] {
    let webhook = |name: &str, path: &str, operations: &[&str]| {
        json!({
            "name": format!("{name}.machine.openshift.io"),
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": "Ignore",
            "matchPolicy": "Equivalent",
            "clientConfig": {"service": {"name": NAME, "namespace": "openshift-machine-api", "path": path}},
            "rules": [{
                "apiGroups": ["machine.openshift.io"],
                "apiVersions": ["v1beta1"],
                "operations": operations,
                "resources": ["machines", "machinesets"],
            }],
        })
    };
    let configuration = |kind: &str, webhook: Value| {
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": kind,
            "metadata": {"name": "machine-api"},
            "webhooks": [webhook],
        })
    };
    [
        configuration(
            "MutatingWebhookConfiguration",
            webhook("default", "/mutate", &["CREATE"]),
        ),
        configuration(
            "ValidatingWebhookConfiguration",
            webhook("validation", "/validate", &["CREATE", "UPDATE"]),
        ),
    ]
}

/// Waits until the API server calls the webhooks. On a platform whose provider specs they read, it
/// waits until each refuses a Machine; on the others, until the label of the cluster is added.
async fn in_force(plane: &ControlPlane, cluster: &Cluster) -> Result<()> {
    let is_typed = matches!(
        cluster.platform.as_str(),
        "AWS" | "Azure" | "GCP" | "VSphere" | "Nutanix" | "PowerVS"
    );
    let label = format!(
        "\"machine.openshift.io/cluster-api-cluster\": \"{}\"",
        cluster.infrastructure_name
    );
    let probes = if is_typed {
        vec![
            ("default.machine.openshift.io", json!({})),
            ("validation.machine.openshift.io", json!({"value": {}})),
        ]
    } else {
        vec![(label.as_str(), json!({"value": {}}))]
    };
    for (expected, provider_spec) in probes {
        let machine = json!({"apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine",
            "metadata": {"name": "probe", "namespace": "default"}, "spec": {"providerSpec": provider_spec}});
        wait_until("the API server to call the Machine webhooks", SOON, async || {
            let create = ["create", "--dry-run=server", "-o", "json", "-f", "-"];
            let output = plane.kubectl().args(create).stdin(machine.to_string()).run().await?;
            if output.stderr.contains(expected) || output.stdout.contains(expected) {
                return Ok(Some(()));
            }
            bail!("the answer to the probe must contain {expected}: {output}")
        })
        .await?;
    }
    Ok(())
}
