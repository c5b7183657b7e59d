//! The commands about the controller of KubeadmControlPlanes: its simulation, and the measurement
//! of fleets.

use anyhow::{Context as _, Result};
use capstan_sandbox::bench;
use capstan_sandbox::simulation::kubeadm;

use super::{Output, print_summary, print_trace, threads};

/// The arguments of the simulation of the controller of KubeadmControlPlanes.
#[derive(clap::Args)]
pub(super) struct Arguments {
    /// The first seed
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// The number of seeds
    #[arg(long, default_value_t = 100)]
    seeds: u64,
    /// Print each step of the first seed
    #[arg(long)]
    trace: bool,
    /// Instead of seeds, insert known bugs, and check that the invariants find them
    #[arg(long, conflicts_with = "trace")]
    mutants: bool,
    /// The number of threads; by default one for each core
    #[arg(long)]
    cores: Option<u64>,
}

/// Runs seeds, or hunts the seeded bugs.
pub(super) fn simulate(arguments: &Arguments) -> Result<()> {
    let (from, seeds, threads) = (arguments.from, arguments.seeds, threads(arguments.cores));
    if arguments.mutants {
        return crate::show_hunted(&kubeadm::mutants::hunt(seeds, threads)?);
    }
    if arguments.trace {
        return print_trace(from, kubeadm::simulation(kubeadm::controller)?.trace(from)?);
    }
    print_summary(&kubeadm::simulate(from, seeds, threads)?, None, Output::Text)
}

/// Measures fleets.
pub(super) fn fleet(sizes: &[usize], replicas: usize, seconds: u64) -> Result<()> {
    let runtime = tokio::runtime::Runtime::new().context("starting the runtime")?;
    let window = std::time::Duration::from_secs(seconds);
    runtime.block_on(bench::measure_kubeadm_fleet(sizes, replicas, window))
}
