//! Closes the connection between the controllers and the API server at the n-th write.

use std::sync::{Mutex, MutexGuard, PoisonError};

use capstan_sandbox::control_plane::{Call, Faults};

#[derive(Debug, Default)]
struct State {
    /// How many writes pass before the gate closes. `None`: all.
    left: Option<usize>,
    closed: bool,
    writes: Vec<String>,
}

/// Lets the writes of the controllers pass, and records them.
#[derive(Debug, Default)]
pub(crate) struct Gate(Mutex<State>);

impl Gate {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes the gate after this many writes have been stored. The answer to the last one is lost.
    pub(crate) fn close_after(&self, writes: usize) {
        let mut state = self.state();
        state.closed = writes == 0;
        state.left = Some(writes);
        state.writes.clear();
    }

    /// Lets everything pass.
    pub(crate) fn open(&self) {
        let mut state = self.state();
        state.left = None;
        state.closed = false;
    }

    /// Whether the last write that may pass was made.
    pub(crate) fn is_closed(&self) -> bool {
        self.state().closed
    }

    /// The number of these writes.
    pub(crate) fn count(&self) -> usize {
        self.state().writes.len()
    }

    /// The writes since the last call of `close_after`.
    pub(crate) fn writes(&self) -> Vec<String> {
        self.state().writes.clone()
    }
}

impl Faults for Gate {
    fn before(&self, call: &Call) -> bool {
        call.write.is_none() || !self.state().closed
    }

    fn after(&self, call: &Call, code: u16) -> bool {
        if call.write.is_none() {
            return true;
        }
        let mut state = self.state();
        state.writes.push(format!("{code} {} {}", call.method, call.path));
        if !(200..300).contains(&code) {
            return true;
        }
        match state.left.as_mut() {
            Some(left) => {
                *left = left.saturating_sub(1);
                let closes = *left == 0;
                state.closed |= closes;
                !closes
            }
            None => true,
        }
    }
}
