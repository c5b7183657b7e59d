//! Logs to standard output, as text or JSON, one line an event.
//!
//! A line is handed to a thread that writes many at once: a system call per review would cost as
//! much as the review, and a terminal or pipe that stalls must not stall admission. When more than
//! [`ROOM`] bytes wait, lines are dropped, counted, and the number is reported on the next line
//! that fits.

use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

/// Bytes that may wait to be written.
const ROOM: usize = 1 << 20;
/// How long lines may be gathered before they are written.
const GATHER: Duration = Duration::from_millis(20);

/// How a line looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: Vec<u8>,
    dropped: u64,
    writing: bool,
    closed: bool,
}

#[derive(Clone, Debug, Default)]
struct Lines {
    queue: Arc<(Mutex<Queue>, Condvar)>,
}

impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let (queue, changed) = &*self.queue;
        let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
        if queue.waiting.len() + line.len() > ROOM {
            queue.dropped += 1;
        } else {
            let wake = queue.waiting.is_empty();
            queue.waiting.extend_from_slice(line);
            drop(queue);
            if wake {
                changed.notify_all();
            }
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

impl Lines {
    /// Writes what comes, until closed and empty.
    fn pump(&self, mut out: impl Write) {
        let (queue, changed) = &*self.queue;
        let mut batch = Vec::new();
        loop {
            let mut state = queue.lock().unwrap_or_else(PoisonError::into_inner);
            while state.waiting.is_empty() && state.dropped == 0 && !state.closed {
                state = changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            if !state.closed {
                drop(state);
                std::thread::sleep(GATHER);
                state = queue.lock().unwrap_or_else(PoisonError::into_inner);
            }
            std::mem::swap(&mut batch, &mut state.waiting);
            let dropped = std::mem::take(&mut state.dropped);
            let done = state.closed && batch.is_empty() && dropped == 0;
            state.writing = !done;
            drop(state);
            if !done {
                // A closed standard output leaves nobody to tell.
                let _closed = out.write_all(&batch);
                if dropped > 0 {
                    let _closed = writeln!(
                        out,
                        "{{\"level\":\"WARN\",\"message\":\"{dropped} log lines dropped\"}}"
                    );
                }
                let _closed = out.flush();
                batch.clear();
                queue.lock().unwrap_or_else(PoisonError::into_inner).writing = false;
            }
            changed.notify_all();
            if done {
                return;
            }
        }
    }

    /// Waits until everything is written, at most for a second: the process is about to end.
    fn close(&self) {
        let (queue, changed) = &*self.queue;
        let mut state = queue.lock().unwrap_or_else(PoisonError::into_inner);
        state.closed = true;
        changed.notify_all();
        let unwritten = |queue: &mut Queue| queue.writing || !queue.waiting.is_empty();
        let _written = changed.wait_timeout_while(state, Duration::from_secs(1), unwritten);
    }
}

/// Writes the last lines when it is dropped.
#[derive(Debug)]
#[must_use = "the last lines are written when this is dropped"]
pub struct Logs {
    lines: Lines,
}

impl Drop for Logs {
    fn drop(&mut self) {
        self.lines.close();
    }
}

/// Starts logging. `filter` is what `RUST_LOG` would hold, for example `info` or `capstan=debug`.
///
/// # Errors
///
/// The filter cannot be read, the thread cannot be started, or something logs already.
pub fn start(format: Format, filter: &str) -> anyhow::Result<Logs> {
    let filter = EnvFilter::try_new(filter)?;
    let lines = Lines::default();
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(lines.clone())
        .with_ansi(false);
    let started = match format {
        Format::Text => subscriber.try_init(),
        Format::Json => subscriber.json().flatten_event(true).try_init(),
    };
    started.map_err(|error| anyhow::anyhow!("{error}"))?;
    let pump = lines.clone();
    std::thread::Builder::new()
        .name("logs".to_owned())
        .spawn(move || pump.pump(io::stdout().lock()))?;
    // The message of a panic may hold a piece of an object, so only its place is told.
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        tracing::error!(place, "panic: a defect of capstan");
    }));
    Ok(Logs { lines })
}

#[cfg(test)]
mod tests {
    use super::{Lines, ROOM};
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Out(Arc<Mutex<Vec<u8>>>);

    impl Write for Out {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn every_line_is_written_before_the_end() {
        let (mut lines, out) = (Lines::default(), Out::default());
        let (pump, sink) = (lines.clone(), out.clone());
        let thread = std::thread::spawn(move || pump.pump(sink));
        for number in 0..1000 {
            writeln!(lines, "line {number}").unwrap();
        }
        lines.close();
        thread.join().unwrap();
        let text = String::from_utf8(out.0.lock().unwrap().clone()).unwrap();
        assert_eq!(text.lines().count(), 1000);
        assert!(text.ends_with("line 999\n"));
    }

    #[test]
    fn a_stalled_output_drops_lines_and_says_so_later() {
        let (mut lines, out) = (Lines::default(), Out::default());
        let line = vec![b'x'; ROOM / 2];
        for _ in 0..5 {
            lines.write_all(&line).unwrap();
        }
        let (pump, sink) = (lines.clone(), out.clone());
        let thread = std::thread::spawn(move || pump.pump(sink));
        lines.close();
        thread.join().unwrap();
        let written = out.0.lock().unwrap().clone();
        let text = String::from_utf8(written).unwrap();
        assert!(text.contains("3 log lines dropped"), "{}", text.len());
    }
}
