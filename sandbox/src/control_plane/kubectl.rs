//! kubectl, as a person at a terminal would run it: as some user, with an editor that a script plays.

use std::fmt;
use std::fs::{self, File};
use std::io::{Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::access::{ADMIN, MASTERS};
use super::plane::ControlPlane;
use super::process::{Tether, spawn_tethered};

/// Longer than any answer takes; kubectl by itself would wait for ever.
const DEADLINE: Duration = Duration::from_secs(120);

/// One call of kubectl, in the making.
#[must_use = "nothing happens before `run`"]
pub struct Kubectl<'a> {
    plane: &'a ControlPlane,
    user: String,
    groups: Vec<String>,
    arguments: Vec<String>,
    stdin: String,
    editor: Option<Editor>,
    kubeconfig: Option<PathBuf>,
}

/// Plays the person in `kubectl edit`.
#[derive(Clone, Debug)]
pub enum Editor {
    /// Changes the text by a sed script (extended expressions), each time the editor is opened.
    Sed(String),
    /// Replaces the text, each time the editor is opened.
    Text(String),
}

/// What kubectl left.
#[derive(Clone, Debug)]
pub struct Output {
    /// The exit code; 0 is success.
    pub status: i32,
    /// What it printed as its answer.
    pub stdout: String,
    /// Errors and warnings.
    pub stderr: String,
    /// What the person saw in the editor, once for each time that it opened. After a refusal it opens again, with the
    /// reason.
    pub opened: Vec<String>,
}

impl Output {
    /// Whether kubectl was content.
    pub fn success(&self) -> bool {
        self.status == 0
    }

    /// The output, if kubectl was content.
    ///
    /// # Errors
    /// It was not; the error holds all that it said.
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
    /// A call of kubectl, as the administrator unless said otherwise.
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

    /// Applies manifests as the administrator, on the server's side. CustomResourceDefinitions among them are served
    /// when it returns.
    ///
    /// # Errors
    /// The API server refuses one of them; those before it are applied.
    pub async fn apply_yaml(&self, manifests: &str) -> Result<Output> {
        let apply = ["apply", "--server-side", "--force-conflicts", "-f", "-", "-o", "name"];
        let applied = self.kubectl().args(apply).stdin(manifests).run().await?.checked()?;
        let definitions: Vec<&str> = applied
            .stdout
            .lines()
            .filter(|name| name.starts_with("customresourcedefinition"))
            .collect();
        if !definitions.is_empty() {
            let wait = ["wait", "--for=condition=Established", "--timeout=60s"];
            self.kubectl().args(wait).args(definitions).run().await?.checked()?;
        }
        Ok(applied)
    }
}

impl Kubectl<'_> {
    /// Calls as this user, with a client certificate. At most two groups.
    pub fn as_user(mut self, user: &str, groups: &[&str]) -> Self {
        self.user = user.to_owned();
        self.groups = groups.iter().map(|group| (*group).to_owned()).collect();
        self
    }

    /// Calls as whoever a kubeconfig file is of: [`ControlPlane::kubeconfig_of_service_account`].
    pub fn with_kubeconfig(mut self, path: &Path) -> Self {
        self.kubeconfig = Some(path.to_owned());
        self
    }

    /// Adds arguments.
    pub fn args(mut self, arguments: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// What kubectl reads from standard input (`-f -`).
    pub fn stdin(mut self, text: impl Into<String>) -> Self {
        self.stdin = text.into();
        self
    }

    /// Who edits, for `kubectl edit`.
    pub fn editor(mut self, editor: Editor) -> Self {
        self.editor = Some(editor);
        self
    }

    /// Runs it. A failure of kubectl is an [`Output`], not an error.
    ///
    /// # Errors
    /// kubectl cannot be started, or does not end within two minutes.
    pub async fn run(self) -> Result<Output> {
        let groups: Vec<&str> = self.groups.iter().map(String::as_str).collect();
        let kubeconfig = match &self.kubeconfig {
            Some(path) => path.clone(),
            None => self.plane.kubeconfig_for(&self.user, &groups)?,
        };
        let scratch = tempfile::tempdir_in(self.plane.folder()).context("making a folder for kubectl")?;
        let mut stdin = tempfile::tempfile().context("making kubectl's input")?;
        stdin
            .write_all(self.stdin.as_bytes())
            .context("writing kubectl's input")?;
        stdin.rewind().context("writing kubectl's input")?;
        let mut stdout = tempfile::tempfile().context("making kubectl's output")?;
        let mut stderr = tempfile::tempfile().context("making kubectl's output")?;

        let mut command = Command::new(&self.plane.binaries.kubectl);
        command
            .args(&self.arguments)
            .current_dir(scratch.path())
            // What the user has configured for kubectl must not reach a test.
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            // Holds the discovery cache, which is worth sharing.
            .env("HOME", self.plane.folder())
            .env("TMPDIR", scratch.path())
            .env("KUBECONFIG", kubeconfig)
            .stdin(stdin)
            .stdout(Stdio::from(stdout.try_clone().context("opening kubectl's output")?))
            .stderr(Stdio::from(stderr.try_clone().context("opening kubectl's output")?));
        if let Some(editor) = &self.editor {
            // Through a shell, so that no program is started that was open for writing a moment ago (ETXTBSY).
            let script = editor.write(scratch.path())?;
            command
                .env("SHELL", "/bin/sh")
                .env("KUBE_EDITOR", format!("sh '{script}'"));
        }
        let child = spawn_tethered(command, Tether::SERVER).context("starting kubectl")?;
        let status = Running(child).end(&self.arguments).await?;
        let mut output = Output {
            status,
            stdout: String::new(),
            stderr: String::new(),
            opened: opened(scratch.path()),
        };
        for (file, text) in [(&mut stdout, &mut output.stdout), (&mut stderr, &mut output.stderr)] {
            file.rewind().context("reading kubectl's output")?;
            file.read_to_string(text).context("reading kubectl's output")?;
        }
        Ok(output)
    }
}

/// kubectl while it runs; killed when nobody waits for it any more.
struct Running(Child);

impl Running {
    async fn end(mut self, arguments: &[String]) -> Result<i32> {
        let began = Instant::now();
        loop {
            if let Some(status) = self.0.try_wait().context("waiting for kubectl")? {
                return Ok(status.code().unwrap_or(-1));
            }
            if began.elapsed() > DEADLINE {
                bail!("kubectl {} did not end within {DEADLINE:?}", arguments.join(" "));
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both do nothing when it has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Editor {
    /// Writes the script that plays the editor; it keeps what it was shown, as `opened-1`, `opened-2`, ….
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

fn opened(folder: &Path) -> Vec<String> {
    (1..)
        .map_while(|number| fs::read_to_string(folder.join(format!("opened-{number}"))).ok())
        .collect()
}
