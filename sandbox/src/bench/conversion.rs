//! The conversion between the two APIs: the time for one machine in this process, and the time and
//! the memory of `capstan convert` for a file of 10,000 machines.

use std::fmt::Write as _;
use std::hint::black_box;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use capstan_core::conversion::{Context, Lookup, convert};
use serde_json::{Value, json};

use super::report::{Ratio, median};

/// The longest allowed time for one machine with its infrastructure, in microseconds.
const MACHINE_GOAL: f64 = 100.0;
/// The longest allowed time for the file, in seconds.
const FILE_GOAL: f64 = 1.0;
/// Machines in the file.
const MACHINES: usize = 10_000;
/// Machines that one sample converts.
const EACH: u32 = 200;
/// Samples of which the median is taken.
const SAMPLES: usize = 50;

/// The provider spec of an AWS machine as an installer makes it.
const PROVIDER_SPEC: &str = include_str!("../../../core/src/conversion/tests/aws.json");

/// A machine with this provider spec.
fn machine(name: &str, provider_spec: &Value) -> Value {
    json!({
        "apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine",
        "metadata": {"name": name, "namespace": "openshift-machine-api", "labels": {
            "machine.openshift.io/cluster-api-cluster": "prod-x7k2p",
            "machine.openshift.io/cluster-api-machine-role": "worker",
            "machine.openshift.io/cluster-api-machine-type": "worker",
            "machine.openshift.io/cluster-api-machineset": "prod-x7k2p-worker-a",
        }},
        "spec": {"lifecycleHooks": {}, "metadata": {}, "providerSpec": {"value": provider_spec}},
    })
}

fn provider_spec() -> Result<Value> {
    serde_json::from_str(PROVIDER_SPEC).context("reading the provider spec of the benchmark")
}

fn cluster() -> [Value; 2] {
    [
        json!({"apiVersion": "config.openshift.io/v1", "kind": "Infrastructure", "metadata": {"name": "cluster"},
            "status": {"infrastructureName": "prod-x7k2p", "platformStatus": {"aws": {"region": "us-east-1"}}}}),
        json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "AWSCluster",
            "metadata": {"name": "prod-x7k2p"}, "spec": {"region": "us-east-1"}}),
    ]
}

/// The time for one machine, in each direction.
pub(super) fn machines() -> Result<Vec<Ratio>> {
    let [infrastructure, of_all] = cluster();
    let context = Context {
        infrastructure: Lookup::Found(&infrastructure),
        infrastructure_cluster: Lookup::Found(&of_all),
        ..Context::default()
    };
    let source = machine("prod-x7k2p-worker-a-abcde", &provider_spec()?);
    let there = convert(&source, &context);
    ensure!(
        there.issues.is_empty(),
        "the machine of the benchmark has issues: {:?}",
        there.issues
    );
    let converted = there.objects.first().context("no machine")?;
    let of_machine = there.objects.get(1).context("no infrastructure")?;
    let with_machine = Context {
        infrastructure_machine: Lookup::Found(of_machine),
        ..context
    };
    [
        ("convert-to-cluster-api", &source, &context),
        ("convert-to-machine-api", converted, &with_machine),
    ]
    .into_iter()
    .map(|(name, object, context)| {
        let mut took: Vec<f64> = (0..SAMPLES).map(|_| sample(object, context)).collect();
        let middle = median(&mut took).context("no sample")?;
        let shown = format!("{middle:.1} of {MACHINE_GOAL} µs for one machine");
        Ok(Ratio::new(name, middle / MACHINE_GOAL, 1.0, shown))
    })
    .collect()
}

/// Microseconds for one conversion.
fn sample(object: &Value, context: &Context<'_>) -> f64 {
    let start = Instant::now();
    for _ in 0..EACH {
        black_box(convert(black_box(object), context));
    }
    start.elapsed().as_secs_f64() * 1e6 / f64::from(EACH)
}

/// The time of `capstan convert` for a file of many machines, with its peak memory.
pub(super) fn file(capstan: &Path, folder: &Path) -> Result<Ratio> {
    let (machines, with) = (folder.join("machines.json"), folder.join("cluster.json"));
    let provider_spec = provider_spec()?;
    let mut text = String::new();
    for index in 0..MACHINES {
        let machine = machine(&format!("prod-x7k2p-worker-a-{index}"), &provider_spec);
        writeln!(text, "---\n{machine}")?;
    }
    std::fs::write(&machines, text).with_context(|| format!("writing {}", machines.display()))?;
    let [infrastructure, of_all] = cluster();
    std::fs::write(&with, format!("---\n{infrastructure}\n---\n{of_all}\n"))
        .with_context(|| format!("writing {}", with.display()))?;
    let mut took = Vec::new();
    let mut memory = None;
    for _ in 0..5 {
        let start = Instant::now();
        let mut process = Command::new(capstan)
            .args(["convert", "-o", "json", "--with"])
            .args([&with, &machines])
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("starting {} convert", capstan.display()))?;
        let output = process.stdout.take().context("standard output is a pipe")?;
        // The process writes its output at the end, when its memory is at its peak.
        let mut output = std::io::BufReader::new(output);
        let first = std::io::BufRead::fill_buf(&mut output)
            .context("reading the result")?
            .len();
        memory = peak(process.id()).or(memory);
        let rest = std::io::copy(&mut output, &mut std::io::sink()).context("reading the result")?;
        let status = process.wait().context("waiting for capstan convert")?;
        ensure!(
            status.success() && first > 0 && rest > 0,
            "capstan convert failed: {status}"
        );
        took.push(start.elapsed().as_secs_f64());
    }
    let middle = median(&mut took).context("no sample")?;
    let memory = memory.map_or_else(String::new, |memory| format!(", {memory} MiB"));
    let shown = format!("{middle:.2} of {FILE_GOAL} s for {MACHINES} machines in a file{memory}");
    Ok(Ratio::new("convert-file", middle / FILE_GOAL, 1.0, shown))
}

/// The peak resident memory of a process in MiB, where the system reports it.
fn peak(process: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kibibytes / 1024)
}
