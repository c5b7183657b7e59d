//! The metrics of the process, with the names that all exporters use. They are read from `/proc` at
//! each scrape. A value that cannot be read is left out.

use std::fmt;
use std::fs;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

/// Reads the metrics of this process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Process;

/// What `/proc/self/stat` says about the process.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Stat {
    /// The CPU time of all threads, in seconds.
    cpu: f64,
    /// The start of the process, in seconds after the start of the machine.
    start: f64,
    threads: i64,
}

impl Stat {
    /// The fields of proc_pid_stat(5). The name of the program is in parentheses, and may contain
    /// spaces.
    fn parse(text: &str, ticks: f64) -> Option<Self> {
        let (_, fields) = text.rsplit_once(')')?;
        let fields: Vec<&str> = fields.split_whitespace().collect();
        // `state` is field 3 of the manual.
        let field = |number: usize| fields.get(number - 3)?.parse::<f64>().ok();
        let threads = fields.get(20 - 3)?.parse().ok()?;
        Some(Self {
            cpu: (field(14)? + field(15)?) / ticks,
            start: field(22)? / ticks,
            threads,
        })
    }
}

/// The resident memory in bytes: the second field of proc_pid_statm(5), in pages.
fn resident(text: &str, page: usize) -> Option<i64> {
    let pages: i64 = text.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * i64::try_from(page).ok()?)
}

/// When the machine started, as a Unix time: `btime` of proc_stat(5).
fn boot(text: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix("btime "))?;
    line.trim().parse().ok()
}

#[allow(clippy::cast_precision_loss, reason = "the clock has a hundred ticks a second")]
fn ticks() -> f64 {
    rustix::param::clock_ticks_per_second() as f64
}

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let mut gauge = |name: &str, help: &str, unit: Option<&Unit>, value: Option<f64>| {
            let Some(value) = value else { return Ok(()) };
            let gauge = ConstGauge::new(value);
            gauge.encode(encoder.encode_descriptor(name, help, unit, gauge_type())?)
        };
        let stat = fs::read_to_string("/proc/self/stat").ok();
        let stat = stat.and_then(|text| Stat::parse(&text, ticks()));
        let memory = fs::read_to_string("/proc/self/statm").ok();
        let memory = memory.and_then(|text| resident(&text, rustix::param::page_size()));
        let boot = fs::read_to_string("/proc/stat").ok().and_then(|text| boot(&text));
        let files = fs::read_dir("/proc/self/fd").ok().map(Iterator::count);
        let number = |value: i64| i32::try_from(value).ok().map(f64::from);
        gauge(
            "process_resident_memory",
            "Resident memory",
            Some(&Unit::Bytes),
            #[allow(clippy::cast_precision_loss, reason = "no process has that much memory")]
            memory.map(|bytes| bytes as f64),
        )?;
        gauge(
            "process_start_time",
            "Start of the process, as a Unix time",
            Some(&Unit::Seconds),
            boot.and_then(|boot| Some(boot + stat?.start)),
        )?;
        gauge(
            "process_threads",
            "Threads",
            None,
            stat.and_then(|stat| number(stat.threads)),
        )?;
        gauge(
            "process_open_fds",
            "Open file descriptors",
            None,
            files.and_then(|files| number(i64::try_from(files).ok()?)),
        )?;
        if let Some(stat) = stat {
            let counter = ConstCounter::new(stat.cpu);
            let descriptor = encoder.encode_descriptor(
                "process_cpu",
                "CPU time of all threads",
                Some(&Unit::Seconds),
                counter.metric_type(),
            )?;
            counter.encode(descriptor)?;
        }
        Ok(())
    }
}

fn gauge_type() -> prometheus_client::metrics::MetricType {
    prometheus_client::metrics::MetricType::Gauge
}

#[cfg(test)]
mod tests {
    use super::{Stat, boot, resident};

    #[test]
    fn the_name_of_the_program_may_contain_spaces_and_parentheses() {
        let text = "7 (a ) b) S 1 7 7 0 -1 4194560 9 0 0 0 250 50 0 0 20 0 12 0 900 1 2";
        let stat = Stat::parse(text, 100.0).unwrap();
        assert_eq!(
            stat,
            Stat {
                cpu: 3.0,
                start: 9.0,
                threads: 12
            }
        );
        assert_eq!(Stat::parse("7 (a) S", 100.0), None);
    }

    #[test]
    fn memory_is_counted_in_pages_and_the_boot_is_a_line() {
        assert_eq!(resident("900 25 3 0", 4096), Some(102_400));
        assert_eq!(resident("", 4096), None);
        assert_eq!(boot("cpu 1\nbtime 1700000000\nprocesses 1\n"), Some(1_700_000_000.0));
    }
}
