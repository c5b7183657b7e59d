//! Child processes that cannot outlive their owner, even if the owner is killed. It sends signals
//! only to its own children.

use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, getpid, getppid, kill_process, kill_process_group};

use super::wait::{get_url, wait_until};

/// How a child is tied to this process.
#[derive(Clone, Copy)]
pub(crate) struct Tether {
    /// The signal that the kernel sends to the child when this process ends for any reason.
    pub(crate) signal: Signal,
    /// Whether the child has a process group of its own, which Ctrl-C in the terminal does not
    /// reach.
    pub(crate) own_group: bool,
}

impl Tether {
    /// For servers: they are killed at once, and their owner decides the order.
    pub(super) const SERVER: Self = Self {
        signal: Signal::KILL,
        own_group: true,
    };
}

struct Job {
    command: Command,
    reply: Sender<io::Result<Child>>,
}

/// Starts a child that dies with this process.
///
/// The kernel sends the parent-death signal when the *thread* that forked ends, and each test runs
/// in a thread of its own. So one thread that lives as long as the process starts all children.
pub(crate) fn spawn_tethered(mut command: Command, tether: Tether) -> io::Result<Child> {
    static SPAWNER: OnceLock<io::Result<Sender<Job>>> = OnceLock::new();
    let spawner = SPAWNER.get_or_init(|| {
        let (sender, jobs) = channel::<Job>();
        thread::Builder::new().name("spawner".to_owned()).spawn(move || {
            for Job { mut command, reply } in jobs {
                // The caller no longer waits, so the child has no owner and must end.
                if let Err(unwanted) = reply.send(command.spawn())
                    && let Ok(mut child) = unwanted.0
                {
                    let _ = child.kill();
                    let _ = child.wait();
                }
            }
        })?;
        Ok(sender)
    });
    let spawner = spawner
        .as_ref()
        .map_err(|error| io::Error::new(error.kind(), error.to_string()))?;
    if tether.own_group {
        command.process_group(0);
    }
    die_with_parent(&mut command, tether.signal);
    let (reply, answer) = channel();
    let ended = || io::Error::other("the thread that starts processes has ended");
    spawner.send(Job { command, reply }).map_err(|_| ended())?;
    answer.recv().map_err(|_| ended())?
}

#[cfg(target_os = "linux")]
#[expect(
    unsafe_code,
    reason = "`pre_exec` is unsafe; the closure makes two system calls and nothing else"
)]
fn die_with_parent(command: &mut Command, signal: Signal) {
    let parent = getpid();
    // SAFETY: the closure runs in the forked child, where only async-signal-safe calls are allowed.
    // It makes two system calls without allocating or locking, and its errors contain numbers only.
    unsafe {
        command.pre_exec(move || {
            rustix::process::set_parent_process_death_signal(Some(signal))?;
            // If the parent died before the line above, the signal is never sent.
            if getppid() != Some(parent) {
                return Err(io::Error::from_raw_os_error(rustix::io::Errno::SRCH.raw_os_error()));
            }
            Ok(())
        });
    }
}

/// Other systems have no such signal. There, children end when their owner is dropped, but not when
/// it is killed.
#[cfg(not(target_os = "linux"))]
fn die_with_parent(_: &mut Command, _: Signal) {
    let _ = (getpid, getppid);
}

/// A server that runs as a child and writes its output to a file. Dropping it kills its process
/// group and waits for the exit.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `command` with its output in the file `log`.
    ///
    /// # Errors
    /// The file cannot be written, or the program cannot be started.
    pub fn spawn(name: &str, mut command: Command, log: &Path) -> Result<Self> {
        let output = File::create(log).with_context(|| format!("creating {}", log.display()))?;
        let errors = output
            .try_clone()
            .with_context(|| format!("opening {}", log.display()))?;
        command.stdin(Stdio::null()).stdout(output).stderr(errors);
        let program = command.get_program().to_owned();
        let child = spawn_tethered(command, Tether::SERVER)
            .with_context(|| format!("starting {name} ({})", program.to_string_lossy()))?;
        Ok(Self {
            name: name.to_owned(),
            child,
            log: log.to_path_buf(),
        })
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The output so far.
    pub fn log(&self) -> String {
        fs::read(&self.log)
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }

    /// Checks that the process runs.
    ///
    /// # Errors
    /// The process has exited; the error contains the end of its output.
    pub fn still_runs(&mut self) -> Result<()> {
        if let Some(status) = self
            .child
            .try_wait()
            .with_context(|| format!("reading the state of {}", self.name))?
        {
            bail!(
                "{} exited ({status}); its last output:\n{}",
                self.name,
                self.last_output()
            );
        }
        Ok(())
    }

    /// Waits until an HTTP GET of `url` succeeds. Certificates are not verified.
    ///
    /// # Errors
    /// The process exits, or does not answer before the deadline.
    pub async fn ready(&mut self, url: &str, deadline: Duration) -> Result<()> {
        let what = format!("an answer from {url}");
        self.wait_for(&what, deadline, async || get_url(url).await).await
    }

    /// Waits until `check` succeeds. It fails early if the process exits.
    pub(super) async fn wait_for(
        &mut self,
        what: &str,
        deadline: Duration,
        mut check: impl AsyncFnMut() -> Result<()>,
    ) -> Result<()> {
        // Both run at once: if another program holds the port and never answers, only the exit of
        // this process tells.
        let result = tokio::select! {
            result = wait_until(what, deadline, async || check().await.map(Some)) => result,
            error = self.exited() => return Err(error),
        };
        result.with_context(|| format!("the last output of {}:\n{}", self.name, self.last_output()))
    }

    async fn exited(&mut self) -> anyhow::Error {
        loop {
            if let Err(error) = self.still_runs() {
                return error;
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
    }

    /// Sends SIGTERM and waits for the exit.
    ///
    /// # Errors
    /// The process has not exited after `grace`; it is killed.
    pub async fn stop(mut self, grace: Duration) -> Result<ExitStatus> {
        self.signal(Signal::TERM)?;
        let began = Instant::now();
        loop {
            if let Some(status) = self
                .child
                .try_wait()
                .with_context(|| format!("waiting for {}", self.name))?
            {
                return Ok(status);
            }
            if began.elapsed() > grace {
                bail!(
                    "{} did not exit within {grace:?} after SIGTERM; its last output:\n{}",
                    self.name,
                    self.last_output()
                );
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Sends a signal to the process, but not to its process group.
    ///
    /// # Errors
    /// The process has exited.
    pub fn signal(&mut self, signal: Signal) -> Result<()> {
        // The exit status has not been collected, so the process id still belongs to this child.
        self.still_runs()?;
        kill_process(self.pid()?, signal).with_context(|| format!("signalling {}", self.name))
    }

    fn pid(&self) -> Result<Pid> {
        i32::try_from(self.child.id())
            .ok()
            .and_then(Pid::from_raw)
            .context("the process id is out of range")
    }

    fn last_output(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        lines
            .get(lines.len().saturating_sub(15)..)
            .unwrap_or_default()
            .join("\n")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait()
            && let Ok(pid) = self.pid()
        {
            // A failure means that the process has just exited. The wait below is correct in both
            // cases.
            let _ = kill_process_group(pid, Signal::KILL);
        }
        let _ = self.child.wait();
    }
}
