//! `make run`: starts a cluster with Capstan, and shows in a short tour what a user of kubectl
//! sees.
//!
//! Every line that looks like output of kubectl is output of kubectl. The tour leaves nothing
//! behind: a control plane of the sandbox stops with this process. In a cluster of the user, the
//! tour deletes every object that it created and changes no other object.

mod guest;
pub(crate) mod kubeadm;
mod migration;
mod page;
mod rollout;
mod screen;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use capstan_core::schema::crd;

use crate::control_plane::{ControlPlane, Options, wait_until};
use crate::installation::{Cluster, NAMESPACE, SERVICE_ACCOUNT, Server, manifests, manifests_of, policies_in_force};
pub use guest::Guest;
pub use kubeadm::Neighbourhood;
pub use screen::Screen;

const SET: &str = include_str!("../../tests/fixtures/aws/set.yaml");
const MACHINES: &str = include_str!("../../tests/fixtures/aws/machines.yaml");
const NODES: &str = include_str!("../../tests/fixtures/aws/nodes.yaml");
const INFRASTRUCTURE: &str = include_str!("../../tests/fixtures/aws/infrastructure.yaml");

/// The deadline of each wait, also on a loaded machine.
const SOON: Duration = Duration::from_secs(60);

/// The `capstan` binary in the folder of this program.
///
/// # Errors
/// The binary does not exist.
pub fn capstan_beside() -> Result<PathBuf> {
    let own = std::env::current_exe().context("finding this program")?;
    let capstan = own.with_file_name("capstan");
    if !capstan.is_file() {
        bail!(
            "{} must exist: build it with `cargo build -p capstan`, as `make run` does",
            capstan.display()
        );
    }
    Ok(capstan)
}

/// A cluster of the sandbox with Capstan in it. It stops when it is dropped.
pub struct Home {
    // Fields are dropped in this order: the server stops before the cluster that it watches.
    page: page::Page,
    _machines: rollout::Machines,
    _server: Server,
    capstan: PathBuf,
    cluster: Cluster,
    plane: ControlPlane,
}

impl Home {
    /// Starts the cluster, and reports progress on the screen.
    ///
    /// # Errors
    /// A component does not start, or the API server refuses an object.
    pub async fn start(capstan: &Path, screen: &mut Screen) -> Result<Self> {
        screen.step("Starting etcd, kube-apiserver and kube-controller-manager on 127.0.0.1");
        let plane = ControlPlane::start(Options::default()).await?;
        let cluster = Cluster::of(&plane)?;
        screen.step("Installing the CRDs, the policies and the permissions of the server");
        let mut definitions = manifests(capstan, "crds").await?;
        for foreign in crd::foreign_crds() {
            definitions.push_str(&format!("---\n{foreign}\n"));
        }
        cluster.apply(&definitions).await?;
        let namespace = ["create", "namespace", NAMESPACE];
        cluster.run(&namespace, "").await?.checked()?;
        let current = ["config", "set-context", "--current", "--namespace", NAMESPACE];
        cluster.run(&current, "").await?.checked()?;
        cluster
            .apply(&manifests_of(capstan, "rbac", "admission,controllers").await?)
            .await?;
        cluster.apply(&manifests(capstan, "policies").await?).await?;
        policies_in_force(&cluster).await?;
        screen.step("Starting capstan serve with a certificate for this machine, and registering its webhooks");
        let groups = ["system:serviceaccounts", "system:serviceaccounts:openshift-machine-api"];
        let kubeconfig = plane.kubeconfig_for(SERVICE_ACCOUNT, &groups)?;
        let folder = plane.folder().join("capstan");
        std::fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
        let flags = [format!("--kubeconfig={}", kubeconfig.display())];
        let server = Server::start(capstan, &flags, "127.0.0.1", &folder).await?;
        server.register(&cluster).await?;
        screen.step("Creating a control plane of three machines in three zones");
        cluster.apply(INFRASTRUCTURE).await?;
        cluster.apply(NODES).await?;
        create_control_plane(&cluster).await?;
        screen.step("Starting the controllers and the simulated machines");
        let machines = rollout::Machines::start(capstan, &plane).await?;
        let page = page::Page::start(capstan, &cluster).await?;
        page.show(screen);
        Ok(Self {
            page,
            _machines: machines,
            _server: server,
            capstan: capstan.to_owned(),
            cluster,
            plane,
        })
    }

    /// Follows the rollout that the last scene starts.
    ///
    /// # Errors
    /// The rollout does not finish.
    pub async fn follow(&self, screen: &mut Screen) -> Result<()> {
        rollout::follow(&self.capstan, &self.plane, screen).await
    }

    /// Migrates a Machine between the two APIs, and shows a refused and a cancelled migration.
    ///
    /// # Errors
    /// A component does not start, or a migration does not end.
    pub async fn migrate(&self, screen: &mut Screen) -> Result<()> {
        migration::show(&self.capstan, &self.plane, &self.cluster, screen).await
    }

    /// The cluster.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Shows commands to try next.
    ///
    /// # Errors
    /// The kubeconfig cannot be written.
    pub fn show_next_steps(&self, screen: &mut Screen) -> Result<()> {
        screen.blank();
        screen.plain(&format!("The control plane as a page: {}", self.page.address()));
        screen.plain("The cluster keeps running. In another terminal:");
        screen.blank();
        screen.plain(&format!("  export KUBECONFIG={}", self.plane.kubeconfig()?.display()));
        let folder = self.plane.binaries().kubectl.parent().unwrap_or(Path::new("/"));
        if !on_path("kubectl") {
            screen.plain(&format!("  export PATH={}:$PATH", folder.display()));
        }
        screen.plain("  kubectl edit cpms cluster");
        screen.plain(&format!("  {} status --watch", self.capstan.display()));
        screen.plain("  kubectl explain cpms.spec");
        screen.plain("  kubectl delete cpms cluster --cascade=foreground");
        screen.blank();
        screen.plain(&format!(
            "The log of the server: {}",
            self.plane.folder().join("capstan/capstan.log").display()
        ));
        screen.plain("Ctrl-C stops everything and leaves nothing behind.");
        Ok(())
    }
}

fn on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Creates the machines and the set that manages them. Creating the set is retried until the server
/// has seen the machines.
async fn create_control_plane(cluster: &Cluster) -> Result<()> {
    cluster.apply(MACHINES).await?;
    let status = [
        "apply",
        "--server-side",
        "--force-conflicts",
        "--subresource=status",
        "-f",
        "-",
    ];
    cluster.run(&status, MACHINES).await?.checked()?;
    wait_until("the set to be accepted", SOON, async || {
        cluster.run(&["create", "-f", "-"], SET).await?.checked().map(Some)
    })
    .await?;
    let counts = r#"{"status": {"replicas": 3, "readyReplicas": 3, "updatedReplicas": 3, "unavailableReplicas": 0}}"#;
    let patch = [
        "patch",
        "controlplanemachinesets",
        "cluster",
        "--namespace",
        NAMESPACE,
        "--subresource=status",
        "--type=merge",
        "-p",
        counts,
    ];
    cluster.run(&patch, "").await?.checked()?;
    Ok(())
}

/// The expected result of a scene.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    Accepted,
    Refused,
}

/// A command and its expected result.
struct Scene {
    title: &'static str,
    command: &'static [&'static str],
    /// The editor of `kubectl edit`.
    editor: Option<&'static str>,
    ending: Ending,
}

const SCENES: &[Scene] = &[
    Scene {
        title: "A control plane of three machines, and the set that manages them.",
        command: &["get", "cpms,machines"],
        editor: None,
        ending: Ending::Accepted,
    },
    Scene {
        title: "Refused: the number of machines is fixed, also for kubectl scale.",
        command: &["scale", "cpms", "cluster", "--replicas=5"],
        editor: None,
        ending: Ending::Refused,
    },
    Scene {
        title: "Refused: three zones become one. The refusal says how to override it.",
        command: &[
            "patch",
            "cpms",
            "cluster",
            "--type=json",
            "-p",
            r#"[{"op": "remove", "path": "/spec/template/machines_v1beta1_machine_openshift_io/failureDomains/aws/2"},
  {"op": "remove", "path": "/spec/template/machines_v1beta1_machine_openshift_io/failureDomains/aws/1"}]"#,
        ],
        editor: None,
        ending: Ending::Refused,
    },
    Scene {
        title: "Refused: a foreground deletion would make the garbage collector delete the machines.",
        command: &["delete", "cpms", "cluster", "--cascade=foreground"],
        editor: None,
        ending: Ending::Refused,
    },
    Scene {
        title: "Accepted: a prefix for the names of new machines.",
        command: &[
            "patch",
            "cpms",
            "cluster",
            "--type=merge",
            "-p",
            r#"{"spec": {"machineNamePrefix": "control-plane"}}"#,
        ],
        editor: None,
        ending: Ending::Accepted,
    },
    Scene {
        title: "Accepted with a warning: a larger instance type replaces machines.",
        command: &["edit", "cpms", "cluster"],
        editor: Some("sed -i s/m6i.xlarge/m6i.2xlarge/"),
        ending: Ending::Accepted,
    },
];

/// Runs the scenes and shows their output.
///
/// # Errors
/// kubectl cannot be run, or a scene has another result than expected.
pub async fn play(cluster: &Cluster, screen: &mut Screen) -> Result<()> {
    for scene in SCENES {
        let mut flags: Vec<String> = Vec::new();
        if let Some(context) = cluster.context() {
            flags.extend(["--context".to_owned(), context.to_owned()]);
            flags.extend(["-n".to_owned(), NAMESPACE.to_owned()]);
        }
        screen.scene(scene.title, scene.editor, &flags, scene.command);
        let mut command = cluster.kubectl();
        if cluster.context().is_some() {
            command.args(["-n", NAMESPACE]);
        }
        command.args(scene.command);
        if let Some(editor) = scene.editor {
            command.env("KUBE_EDITOR", editor);
        }
        let output = crate::installation::run(command, "").await?;
        screen.answer(&output);
        if output.success() != (scene.ending == Ending::Accepted) {
            bail!("kubectl must have the result that the title names: {}", scene.title);
        }
    }
    Ok(())
}
