//! Runs kubectl as a user, with a script as the editor of `kubectl edit`.

mod call;
mod session;

use std::fmt;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

pub(crate) use self::call::KubectlCall;
use super::binaries::Binaries;
use super::kubeconfig::{ADMIN, MASTERS};
use super::plane::ControlPlane;

/// A builder for one call of kubectl.
#[must_use = "kubectl runs only when `run` is called"]
pub struct Kubectl<'a> {
    plane: &'a ControlPlane,
    user: String,
    groups: Vec<String>,
    arguments: Vec<String>,
    stdin: String,
    editor: Option<Editor>,
    kubeconfig: Option<PathBuf>,
}

/// The editor of `kubectl edit`.
#[derive(Clone, Debug)]
pub enum Editor {
    /// Applies a sed script (with extended regular expressions) each time the editor opens.
    Sed(String),
    /// Replaces the text each time the editor opens.
    Text(String),
}

/// The result of a call of kubectl.
#[derive(Clone, Debug)]
pub struct Output {
    /// The exit code; 0 means success.
    pub status: i32,
    /// The standard output.
    pub stdout: String,
    /// The standard error, with errors and warnings.
    pub stderr: String,
    /// The text in the editor, once for each time that it opened. After a refusal, kubectl opens
    /// the editor again with the reason.
    pub opened: Vec<String>,
}

impl Output {
    /// Whether kubectl succeeded.
    pub fn success(&self) -> bool {
        self.status == 0
    }

    /// The output of a successful call.
    ///
    /// # Errors
    /// kubectl failed; the error contains its output.
    pub fn checked(self) -> Result<Self> {
        if !self.success() {
            bail!("kubectl failed: {self}");
        }
        Ok(self)
    }
}

impl fmt::Display for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "exit {}\n{}{}", self.status, self.stdout, self.stderr)
    }
}

impl ControlPlane {
    /// A call of kubectl. It runs as the administrator by default.
    pub fn kubectl(&self) -> Kubectl<'_> {
        Kubectl {
            plane: self,
            user: ADMIN.to_owned(),
            groups: vec![MASTERS.to_owned()],
            arguments: Vec::new(),
            stdin: String::new(),
            editor: None,
            kubeconfig: None,
        }
    }

    /// Applies manifests by server-side apply as the administrator, and waits until CRDs among them
    /// are established.
    ///
    /// # Errors
    /// The API server refuses a manifest; the manifests before it are applied.
    pub async fn apply_yaml(&self, manifests: &str) -> Result<Output> {
        let apply = ["apply", "--server-side", "--force-conflicts", "-f", "-", "-o", "name"];
        let applied = self.kubectl().args(apply).stdin(manifests).run().await?.checked()?;
        let definitions: Vec<&str> = applied
            .stdout
            .lines()
            .filter(|name| name.starts_with("customresourcedefinition"))
            .collect();
        if !definitions.is_empty() {
            self.wait_until_established(&definitions).await?;
        }
        Ok(applied)
    }

    /// Writes fields of the status of an object, as the administrator. `object` is the resource and
    /// the name; `flags` may name its namespace.
    ///
    /// # Errors
    /// The API server refuses the patch.
    pub async fn patch_status(&self, object: [&str; 2], flags: &[&str], fields: &Value) -> Result<Output> {
        let patch = json!({ "status": fields }).to_string();
        let patched = self.kubectl().args(["patch"]).args(object).args(flags.iter().copied());
        let patched = patched.args(["--subresource=status", "--type=merge", "-p", &patch]);
        patched.run().await?.checked()
    }

    /// `kubectl wait` fails at once for a CRD that has no conditions yet, so it is repeated.
    async fn wait_until_established(&self, definitions: &[&str]) -> Result<()> {
        let deadline = tokio::time::Instant::now() + std::time::Duration::from_mins(1);
        loop {
            let wait = ["wait", "--for=condition=Established", "--timeout=60s"];
            let waited = self
                .kubectl()
                .args(wait)
                .args(definitions.iter().copied())
                .run()
                .await?;
            let has_no_conditions = waited.stderr.contains("accessor error");
            if !has_no_conditions || tokio::time::Instant::now() > deadline {
                waited.checked()?;
                return Ok(());
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    }
}

impl Kubectl<'_> {
    /// Runs as this user, with a client certificate. A user has at most two groups.
    pub fn as_user(mut self, user: &str, groups: &[&str]) -> Self {
        self.user = user.to_owned();
        self.groups = groups.iter().map(|group| (*group).to_owned()).collect();
        self
    }

    /// Runs as the user of a kubeconfig file, such as
    /// [`ControlPlane::kubeconfig_of_service_account`].
    pub fn with_kubeconfig(mut self, path: &Path) -> Self {
        self.kubeconfig = Some(path.to_owned());
        self
    }

    /// Adds arguments.
    pub fn args(mut self, arguments: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// Sets the standard input, for `-f -`.
    pub fn stdin(mut self, text: impl Into<String>) -> Self {
        self.stdin = text.into();
        self
    }

    /// Sets the editor, for `kubectl edit`.
    pub fn editor(mut self, editor: Editor) -> Self {
        self.editor = Some(editor);
        self
    }

    /// Runs kubectl. A failure of kubectl is an [`Output`], not an error.
    ///
    /// # Errors
    /// kubectl cannot be started, or does not end within two minutes.
    pub async fn run(self) -> Result<Output> {
        let groups: Vec<&str> = self.groups.iter().map(String::as_str).collect();
        let kubeconfig = match &self.kubeconfig {
            Some(path) => path.clone(),
            None => self.plane.kubeconfig_for(&self.user, &groups)?,
        };
        let home = self.plane.folder();
        let scratch = tempfile::tempdir_in(home).context("creating a folder for kubectl")?;
        let mut call = KubectlCall::new(self.arguments, scratch.path(), home, &self.stdin)?
            .with("KUBECONFIG", kubeconfig.display().to_string());
        if let Some(editor) = &self.editor {
            // A shell runs the script. Executing a file that was just written could fail with
            // ETXTBSY.
            let script = editor.write(scratch.path())?;
            call = call
                .with("SHELL", "/bin/sh")
                .with("KUBE_EDITOR", format!("sh '{script}'"));
        }
        call.run(&self.plane.binaries).await
    }
}

impl KubectlCall {
    /// Runs the call in a session, if there is the program. A failure of kubectl is an [`Output`],
    /// not an error.
    ///
    /// # Errors
    /// kubectl cannot be started, or does not end within two minutes.
    pub(crate) async fn run(&self, binaries: &Binaries) -> Result<Output> {
        let status = match &binaries.kubectl_session {
            Some(program) => session::run(program, self).await?,
            None => self.start(&binaries.kubectl)?.end(self).await?,
        };
        self.output(status)
    }
}

impl Editor {
    /// Writes the script of the editor. It saves the texts that it is given as `opened-1`,
    /// `opened-2`, ….
    fn write(&self, folder: &Path) -> Result<String> {
        let place = folder.display();
        let (content, change) = match self {
            Self::Sed(script) => (script, format!("sed -E -f '{place}/change' '{place}/shown' > \"$1\"")),
            Self::Text(text) => (text, format!("cat '{place}/change' > \"$1\"")),
        };
        let script = format!(
            "set -e\ncp \"$1\" '{place}/shown'\nn=1\nwhile test -e '{place}'/opened-$n; do n=$((n + 1)); done\n\
             cp '{place}/shown' '{place}'/opened-$n\n{change}\n"
        );
        for (name, text) in [("change", content), ("editor", &script)] {
            let path = folder.join(name);
            File::create(&path)
                .and_then(|mut file| file.write_all(text.as_bytes()))
                .with_context(|| format!("writing {}", path.display()))?;
        }
        Ok(folder.join("editor").display().to_string())
    }
}
