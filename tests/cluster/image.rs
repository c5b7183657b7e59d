//! The image in a cluster: its program starts as its user, serves the webhooks, and passes
//! `capstan verify`.
//!
//! buildah builds the image, without pulling anything. As `make image` does, the test installs
//! Debian's package if it is missing. No container runtime is needed: the program runs in the root
//! file system of the image, with the network of the machine.

use std::path::{Path, PathBuf};
use std::process::Command;

use capstan_sandbox::control_plane::{Process, free_port, wait_until};
use capstan_sandbox::installation::{NAMESPACE, SERVICE_ACCOUNT};
use serde_json::Value;

use super::fixtures;
use super::lifecycle::{GROUPS, empty, install, mark_ready, prepare, register};
use super::world::{SOON, capstan};

/// An image: its root file system, and the fields of its configuration that a runtime uses.
struct Image {
    root: PathBuf,
    user: String,
    entry_point: Vec<String>,
}

fn run(command: &mut Command) -> Vec<u8> {
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {errors}");
    output.stdout
}

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

impl Image {
    /// Builds the image of the program under test with the steps of `make image`.
    fn build(folder: &Path) -> Self {
        run(&mut Command::new(repository().join("image/packages.sh")));
        let context = folder.join("context");
        let script = repository().join("image/root-file-system.sh");
        run(Command::new(script).arg(capstan()).arg(&context));
        Self::with_buildah(folder, &context)
    }

    fn with_buildah(folder: &Path, context: &Path) -> Self {
        // The storage of the test is its own, and needs no mounts.
        let buildah = || {
            let mut command = Command::new("buildah");
            command.args(["--storage-driver", "vfs", "--root"]);
            command
                .arg(folder.join("storage"))
                .arg("--runroot")
                .arg(folder.join("run"));
            command
        };
        let build = [
            "build",
            "--quiet",
            "--isolation",
            "chroot",
            "--pull-never",
            "--tag",
            "capstan:test",
        ];
        let file = repository().join("Containerfile");
        run(buildah().args(build).arg("--file").arg(file).arg(context));
        let layout = folder.join("layout");
        run(buildah()
            .args(["push", "--quiet", "capstan:test"])
            .arg(format!("oci:{}", layout.display())));

        let read = |path: PathBuf| -> Value { serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap() };
        let blob = |descriptor: &Value| {
            let digest = descriptor["digest"].as_str().unwrap();
            layout.join("blobs").join(digest.replace(':', "/"))
        };
        let manifest = read(blob(&read(layout.join("index.json"))["manifests"][0]));
        let config = read(blob(&manifest["config"]));
        let root = folder.join("root");
        std::fs::create_dir(&root).unwrap();
        for layer in manifest["layers"].as_array().unwrap() {
            run(Command::new("tar").arg("-xzf").arg(blob(layer)).arg("-C").arg(&root));
        }
        assert_eq!(
            config["config"]["Env"].as_array().map_or(0, Vec::len),
            1,
            "PATH only: {config}"
        );
        Self {
            root,
            user: config["config"]["User"].as_str().unwrap().to_owned(),
            entry_point: serde_json::from_value(config["config"]["Entrypoint"].clone()).unwrap(),
        }
    }

    /// The entry point in the root file system, as the user of the image if this process may change
    /// its user, and without any variable of this machine.
    fn command(&self) -> Command {
        let mut command = if rustix::process::geteuid().is_root() {
            let mut command = Command::new("chroot");
            command.arg("--userspec").arg(&self.user);
            command
        } else {
            let mut command = Command::new("unshare");
            command.args(["--user", "--map-root-user", "chroot"]);
            command
        };
        command.arg(&self.root).args(&self.entry_point).env_clear();
        command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        command
    }

    /// Copies a file into the root file system, readable for the user of the image, and returns its
    /// path there.
    fn add(&self, name: &str, file: &Path) -> String {
        use std::os::unix::fs::PermissionsExt as _;
        let copy = self.root.join(name);
        std::fs::copy(file, &copy).unwrap();
        std::fs::set_permissions(&copy, std::fs::Permissions::from_mode(0o644)).unwrap();
        format!("/{name}")
    }
}

#[tokio::test]
async fn the_image_starts_serves_and_passes_verify() {
    let folder = tempfile::tempdir().unwrap();
    // The user of the image must be able to enter the folder.
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let image = Image::build(folder.path());
    assert_eq!(image.user, "65532:65532");

    let plane = empty().await;
    prepare(&plane).await;
    plane.apply_yaml(&fixtures::surroundings()).await.unwrap();
    install(&plane, "admission").await;
    let server_access = plane.kubeconfig_for(SERVICE_ACCOUNT, &GROUPS).unwrap();
    let server_access = image.add("server.yaml", &server_access);
    let (port, health) = (free_port().unwrap(), free_port().unwrap());
    let mut command = image.command();
    command
        .args([
            "serve",
            "--dns-name=127.0.0.1",
            "--shutdown-delay=0s",
            "--log-format=json",
        ])
        .arg(format!("--self-managed-secret={NAMESPACE}/capstan-webhook-tls"))
        .arg(format!("--listen=127.0.0.1:{port}"))
        .arg(format!("--health-addr=127.0.0.1:{health}"))
        .arg(format!("--kubeconfig={server_access}"));
    let mut server = Process::spawn("the image", command, &plane.folder().join("image.log")).unwrap();
    server
        .ready(&format!("http://127.0.0.1:{health}/readyz"), SOON)
        .await
        .unwrap();
    if rustix::process::geteuid().is_root() {
        let status = std::fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap();
        let user = status.lines().find(|line| line.starts_with("Uid:")).unwrap();
        assert_eq!(user, "Uid:\t65532\t65532\t65532\t65532");
    }
    register(&plane, port, &[]).await;
    for deployment in ["capstan-webhook", "capstan-registration"] {
        mark_ready(&plane, deployment).await;
    }

    let admin = image.add("admin.yaml", &plane.kubeconfig().unwrap());
    wait_until("the image passes verify", SOON, async || {
        let output = image.command().args(["verify", "--kubeconfig", &admin]).output()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        anyhow::ensure!(output.status.code() == Some(0), "{text}\n{}", server.log());
        Ok(Some(()))
    })
    .await
    .unwrap();
    server.stop(SOON).await.unwrap();
}
