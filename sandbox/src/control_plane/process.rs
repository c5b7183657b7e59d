//! Child processes that cannot outlive their owner, also when the owner is killed. It signals only what it started.

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

use super::wait::{answers_ok, wait_until};

/// How a child is tied to this process.
#[derive(Clone, Copy)]
pub(super) struct Tether {
    /// What the kernel sends to the child when this process ends, however it ends.
    pub(super) signal: Signal,
    /// Whether the child leads a process group of its own, out of reach of the terminal's Ctrl-C.
    pub(super) own_group: bool,
}

impl Tether {
    /// For servers: they end at once, and in the order that their owner chooses.
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
/// The kernel sends the parent-death signal when the *thread* that forked ends, and a test's thread ends with its test.
/// So one thread, which lives as long as the process, starts them all.
pub(super) fn spawn_tethered(mut command: Command, tether: Tether) -> io::Result<Child> {
    static SPAWNER: OnceLock<io::Result<Sender<Job>>> = OnceLock::new();
    let spawner = SPAWNER.get_or_init(|| {
        let (sender, jobs) = channel::<Job>();
        thread::Builder::new().name("spawner".to_owned()).spawn(move || {
            for Job { mut command, reply } in jobs {
                // Nobody waits any more: the child must not go on unowned.
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
    let gone = || io::Error::other("the thread that starts processes is gone");
    spawner.send(Job { command, reply }).map_err(|_| gone())?;
    answer.recv().map_err(|_| gone())?
}

#[cfg(target_os = "linux")]
#[expect(
    unsafe_code,
    reason = "code between fork and exec cannot be given in a safe way; it makes two system calls and no more"
)]
fn die_with_parent(command: &mut Command, signal: Signal) {
    let parent = getpid();
    // SAFETY: the closure runs in the forked child, where only async-signal-safe calls are allowed. It makes two system
    // calls without allocating or locking; the error values hold numbers only.
    unsafe {
        command.pre_exec(move || {
            rustix::process::set_parent_process_death_signal(Some(signal))?;
            // The parent may have died before the line above: then the signal would never come.
            if getppid() != Some(parent) {
                return Err(io::Error::from_raw_os_error(rustix::io::Errno::SRCH.raw_os_error()));
            }
            Ok(())
        });
    }
}

/// Elsewhere there is no such signal: children end when their owner is dropped, not when it is killed.
#[cfg(not(target_os = "linux"))]
fn die_with_parent(_: &mut Command, _: Signal) {
    let _ = (getpid, getppid);
}

/// A server that runs as a child, with its output in a file. Dropping it kills its process group and waits for its end.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `command`; what it prints goes to the file `log`.
    ///
    /// # Errors
    /// When the file cannot be written or the program cannot be started.
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

    /// Everything that it printed so far.
    pub fn log(&self) -> String {
        fs::read(&self.log)
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }

    /// Says that it ended, and what it said last, if it has ended.
    ///
    /// # Errors
    /// The process has ended.
    pub fn still_runs(&mut self) -> Result<()> {
        if let Some(status) = self
            .child
            .try_wait()
            .with_context(|| format!("asking about {}", self.name))?
        {
            bail!("{} ended ({status}); it said last:\n{}", self.name, self.last_words());
        }
        Ok(())
    }

    /// Waits until an HTTP GET of `url` answers with a success. Certificates are not checked: this is a question about
    /// life.
    ///
    /// # Errors
    /// The process ended, or did not answer before the deadline.
    pub async fn ready(&mut self, url: &str, deadline: Duration) -> Result<()> {
        self.wait_for(&format!("an answer from {url}"), deadline, async || {
            answers_ok(url).await
        })
        .await
    }

    /// Waits for `look`, or for the end of the process, whichever comes first.
    pub(super) async fn wait_for(
        &mut self,
        what: &str,
        deadline: Duration,
        mut look: impl AsyncFnMut() -> Result<bool>,
    ) -> Result<()> {
        // Side by side: another program may sit on the port and never answer, while ours has ended for want of it.
        let result = tokio::select! {
            result = wait_until(what, deadline, async || Ok(look().await?.then_some(()))) => result,
            error = self.ended() => return Err(error),
        };
        result.with_context(|| format!("{} said last:\n{}", self.name, self.last_words()))
    }

    async fn ended(&mut self) -> anyhow::Error {
        loop {
            if let Err(error) = self.still_runs() {
                return error;
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
    }

    /// Sends SIGTERM and waits for the end.
    ///
    /// # Errors
    /// It has not ended after `grace`; it is killed then.
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
                    "{} did not end within {grace:?} after SIGTERM; it said last:\n{}",
                    self.name,
                    self.last_words()
                );
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Sends a signal to the process itself (not to its group).
    ///
    /// # Errors
    /// The process has ended already.
    pub fn signal(&mut self, signal: Signal) -> Result<()> {
        // Not yet waited for, so the number is still that of our child.
        self.still_runs()?;
        kill_process(self.pid()?, signal).with_context(|| format!("signalling {}", self.name))
    }

    fn pid(&self) -> Result<Pid> {
        i32::try_from(self.child.id())
            .ok()
            .and_then(Pid::from_raw)
            .context("a process id out of range")
    }

    fn last_words(&self) -> String {
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
            // A failure means that it ended just now; waiting below is right either way.
            let _ = kill_process_group(pid, Signal::KILL);
        }
        let _ = self.child.wait();
    }
}
