//! Processes that run many calls of kubectl, one after the other: `tests/kube/session`.
//!
//! A third of the processor time of the tests was the start of kubectl (decision 98). A session is
//! the same program, and starts once. Calls that run at the same time use different sessions,
//! because kubectl keeps its streams and its warnings in the process. A call that does not end, or
//! that the test no longer waits for, ends its session.

use std::io::Write as _;
use std::path::Path;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use anyhow::{Context, Result, bail};

use super::super::plane::HEAP_GROWTH;
use super::super::process::{Tether, spawn_tethered};
use super::call::{DEADLINE, KubectlCall, PAUSE, Running};

/// The calls of a session. kubectl keeps memory of each call: after the calls of one test binary, a
/// session had 4.5 GB.
const CALLS: u32 = 50;

/// The sessions that run no call.
static IDLE: Mutex<Vec<Session>> = Mutex::new(Vec::new());

/// A process that runs calls. Dropping it ends the process.
struct Session {
    process: Running,
    input: ChildStdin,
    /// How many calls it may still run.
    left: u32,
}

fn idle() -> MutexGuard<'static, Vec<Session>> {
    IDLE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Session {
    fn start(program: &Path) -> Result<Self> {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("GOGC", HEAP_GROWTH)
            .stdin(Stdio::piped())
            .stdout(Stdio::null());
        let mut child = spawn_tethered(command, Tether::SERVER).context("starting a session of kubectl")?;
        let input = child.stdin.take().context("a session of kubectl has no input")?;
        Ok(Self {
            process: Running(child),
            input,
            left: CALLS,
        })
    }
}

/// Runs a call in an idle session, or in a new one. Returns the exit code.
pub(super) async fn run(program: &Path, call: &KubectlCall) -> Result<i32> {
    let waiting = idle().pop();
    let mut session = waiting.map_or_else(|| Session::start(program), Ok)?;
    session.left -= 1;
    let text = serde_json::to_vec(call).context("encoding a call of kubectl")?;
    session
        .input
        .write_all(&text)
        .context("sending a call to a session of kubectl")?;
    let began = Instant::now();
    loop {
        // Some calls end the process. The check comes first, because the session may write the
        // status and then end.
        let ended = session
            .process
            .0
            .try_wait()
            .context("waiting for a session of kubectl")?;
        if let Some(status) = call.status()? {
            if ended.is_none() && session.left > 0 {
                idle().push(session);
            }
            return Ok(status);
        }
        if let Some(ended) = ended {
            return Ok(ended.code().unwrap_or(-1));
        }
        if began.elapsed() > DEADLINE {
            bail!("{call} did not end within {DEADLINE:?}");
        }
        tokio::time::sleep(PAUSE).await;
    }
}
