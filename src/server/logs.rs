//! Logs to standard output, as text or JSON, with one line for each event.
//!
//! `tracing-appender` passes the lines through a bounded queue to a writer thread, so that a
//! terminal or a pipe that stalls never blocks the server. The thread writes many lines at once,
//! because a system call for each review would cost as much as the review. When the queue is full,
//! lines are dropped and counted, and a later line reports their number.

use std::io::{self, BufWriter, Write};
use std::sync::mpsc;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tracing_appender::non_blocking::{ErrorCounter, NonBlocking, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::EnvFilter;

/// The capacity of the queue, in lines. The line of a review has about 400 bytes, so a full queue
/// takes less than 2 MiB.
const QUEUED_LINES: usize = 4096;
/// The pause after each write, in which lines gather in the queue.
const WRITE_INTERVAL: Duration = Duration::from_millis(20);
/// How long the end of the process waits for the last lines.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// The format of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// Plain text.
    #[default]
    Text,
    /// One JSON object for each line.
    Json,
}

/// The writer thread's output: buffers lines, and reports dropped ones.
struct Output<W: Write> {
    out: BufWriter<W>,
    format: Format,
    /// Set as soon as the queue exists.
    dropped: Arc<OnceLock<ErrorCounter>>,
    reported: usize,
}

impl<W: Write> Output<W> {
    fn report_dropped_lines(&mut self) {
        let dropped = self.dropped.get().map_or(0, ErrorCounter::dropped_lines);
        let new = dropped.saturating_sub(self.reported);
        if new == 0 {
            return;
        }
        self.reported = dropped;
        let message = format!("{new} log lines dropped");
        let _ignored = match self.format {
            Format::Text => writeln!(self.out, " WARN {message}"),
            Format::Json => writeln!(self.out, r#"{{"level":"WARN","message":"{message}"}}"#),
        };
    }
}

/// If the output is closed, its errors cannot be reported anywhere, so they are ignored.
impl<W: Write> Write for Output<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let _ignored = self.out.write_all(line);
        Ok(line.len())
    }

    /// The writer thread calls this when the queue is empty.
    fn flush(&mut self) -> io::Result<()> {
        self.report_dropped_lines();
        let _ignored = self.out.flush();
        std::thread::sleep(WRITE_INTERVAL);
        Ok(())
    }
}

/// Writes the last lines when it is dropped.
#[derive(Debug)]
#[must_use = "the last lines are written when this is dropped"]
pub struct Logs {
    writer: Option<WorkerGuard>,
}

impl Drop for Logs {
    fn drop(&mut self) {
        let (done, finished) = mpsc::channel();
        let writer = self.writer.take();
        // The guard prints to standard output if the queue stays full, which blocks if that output
        // stalls. It is dropped in its own thread, so that the process ends all the same.
        let flush = move || {
            drop(writer);
            // The receiver has stopped waiting if this takes longer than the timeout.
            let _ignored = done.send(());
        };
        if std::thread::Builder::new().spawn(flush).is_ok() {
            let _timed_out = finished.recv_timeout(FLUSH_TIMEOUT);
        }
    }
}

fn queue(format: Format, out: impl Write + Send + 'static, lines: usize) -> (NonBlocking, Logs) {
    let dropped = Arc::new(OnceLock::new());
    let output = Output {
        out: BufWriter::with_capacity(64 << 10, out),
        format,
        dropped: Arc::clone(&dropped),
        reported: 0,
    };
    let (writer, guard) = NonBlockingBuilder::default()
        .lossy(true)
        .buffered_lines_limit(lines)
        .thread_name("logs")
        .finish(output);
    // The cell is empty until here.
    let _ignored = dropped.set(writer.error_counter());
    (writer, Logs { writer: Some(guard) })
}

/// Starts logging. `filter` has the syntax of `RUST_LOG`, for example `info` or `capstan=debug`.
///
/// # Errors
///
/// The filter cannot be parsed, or another logger is installed.
pub fn start(format: Format, filter: &str) -> anyhow::Result<Logs> {
    let filter = EnvFilter::try_new(filter)?;
    let (writer, logs) = queue(format, io::stdout(), QUEUED_LINES);
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(writer)
        .with_ansi(false);
    let started = match format {
        Format::Text => subscriber.try_init(),
        Format::Json => subscriber.json().flatten_event(true).try_init(),
    };
    started.map_err(|error| anyhow::anyhow!("{error}"))?;
    log_panics();
    Ok(logs)
}

/// As [`start`], and exports traces to a collector. It must be called in a runtime.
///
/// # Errors
///
/// As for [`start`], or the endpoint is not the address of a collector.
#[cfg(feature = "opentelemetry")]
pub fn start_with_traces(
    format: Format,
    filter: &str,
    endpoint: &str,
) -> anyhow::Result<(Logs, super::traces::Traces)> {
    use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
    use tracing_subscriber::util::SubscriberInitExt as _;

    // Each layer has its own filter: that of the logs does not drop spans.
    let filter = EnvFilter::try_new(filter)?;
    let (writer, logs) = queue(format, io::stdout(), QUEUED_LINES);
    let lines = tracing_subscriber::fmt::layer().with_writer(writer).with_ansi(false);
    let lines = match format {
        Format::Text => lines.with_filter(filter).boxed(),
        Format::Json => lines.json().flatten_event(true).with_filter(filter).boxed(),
    };
    let (spans, traces) = super::traces::layer(endpoint)?;
    let started = tracing_subscriber::registry().with(lines).with(spans).try_init();
    started.map_err(|error| anyhow::anyhow!("{error}"))?;
    log_panics();
    Ok((logs, traces))
}

/// Logs each panic.
fn log_panics() {
    // The message of a panic may contain a part of an object, so only its place is logged.
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        tracing::error!(place, "panic, which is a defect of capstan");
    }));
}

#[cfg(test)]
mod tests {
    use super::{Format, queue};
    use std::io::{self, Write};
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::sync::{Arc, Mutex};

    /// Collects the output. Each write waits for a permit, if there is a receiver of permits.
    #[derive(Clone, Default)]
    struct Out {
        text: Arc<Mutex<Vec<u8>>>,
        permits: Option<Arc<Mutex<Receiver<()>>>>,
        blocked: Option<Sender<()>>,
    }

    impl Out {
        /// An output that stalls until a permit is sent, and the signal that it has stalled.
        fn stalled() -> (Self, Sender<()>, Receiver<()>) {
            let (permit, permits) = channel();
            let (blocked, is_blocked) = channel();
            let out = Self {
                text: Arc::default(),
                permits: Some(Arc::new(Mutex::new(permits))),
                blocked: Some(blocked),
            };
            (out, permit, is_blocked)
        }

        fn text(&self) -> String {
            String::from_utf8(self.text.lock().unwrap().clone()).unwrap()
        }
    }

    impl Write for Out {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if let Some(permits) = &self.permits {
                let _ignored = self.blocked.as_ref().map(|blocked| blocked.send(()));
                // A closed channel permits all further writes.
                let _closed = permits.lock().unwrap().recv();
            }
            self.text.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn all_lines_are_written_before_the_end() {
        let out = Out::default();
        let (mut writer, logs) = queue(Format::Text, out.clone(), 2000);
        for number in 0..1000 {
            writer.write_all(format!("line {number}\n").as_bytes()).unwrap();
        }
        drop(logs);
        assert_eq!(out.text().lines().count(), 1000);
        assert!(out.text().ends_with("line 999\n"));
    }

    #[test]
    fn a_stalled_output_drops_lines_and_reports_their_number_later() {
        for (format, report) in [
            (Format::Text, " WARN 5 log lines dropped\n"),
            (
                Format::Json,
                "{\"level\":\"WARN\",\"message\":\"5 log lines dropped\"}\n",
            ),
        ] {
            let (out, permit, is_blocked) = Out::stalled();
            let (mut writer, logs) = queue(format, out.clone(), 2);
            writer.write_all(b"first\n").unwrap();
            // The writer thread waits for the output, and two more lines fill the queue.
            is_blocked.recv().unwrap();
            for _ in 0..7 {
                writer.write_all(b"next\n").unwrap();
            }
            drop(permit);
            drop(logs);
            assert_eq!(out.text(), format!("first\nnext\nnext\n{report}"));
        }
    }

    #[test]
    fn a_stalled_output_does_not_prevent_the_end_of_the_process() {
        let (out, _permit, is_blocked) = Out::stalled();
        let (mut writer, logs) = queue(Format::Text, out, 2);
        writer.write_all(b"first\n").unwrap();
        is_blocked.recv().unwrap();
        for _ in 0..7 {
            writer.write_all(b"next\n").unwrap();
        }
        drop(logs);
    }
}
