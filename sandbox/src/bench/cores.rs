//! Processor affinity: one core for the servers, and one for the client.
//!
//! If both shared a core, the latency would mostly measure the scheduler: with a tick of 4 ms, the
//! p99 is 4 ms or more as soon as the core is full, whatever the server does.

use anyhow::Result;

/// A core for the servers, and another for the client.
#[derive(Debug)]
pub(super) struct Cores {
    #[cfg(target_os = "linux")]
    all: rustix::thread::CpuSet,
    #[cfg(target_os = "linux")]
    servers: rustix::thread::CpuSet,
    #[cfg(target_os = "linux")]
    client: rustix::thread::CpuSet,
}

#[cfg(target_os = "linux")]
impl Cores {
    /// Two of the cores that this process may use; `None` if it may use only one.
    pub(super) fn split() -> Result<Option<Self>> {
        use anyhow::Context as _;
        use rustix::thread::{CpuSet, sched_getaffinity};

        let all = sched_getaffinity(None).context("asking for the cores")?;
        let mut pair = (0..CpuSet::MAX_CPU).filter(|core| all.is_set(*core)).map(|core| {
            let mut only = CpuSet::new();
            only.set(core);
            only
        });
        Ok(pair
            .next()
            .zip(pair.next())
            .map(|(client, servers)| Self { all, servers, client }))
    }

    /// Processes that this thread starts from now on run on the core of the servers.
    pub(super) fn for_servers(&self) -> Result<()> {
        enter(&self.servers)
    }

    /// This thread runs on the core of the client.
    pub(super) fn for_client(&self) -> Result<()> {
        enter(&self.client)
    }
}

#[cfg(target_os = "linux")]
fn enter(core: &rustix::thread::CpuSet) -> Result<()> {
    use anyhow::Context as _;

    rustix::thread::sched_setaffinity(None, core).context("setting the processor affinity")
}

#[cfg(target_os = "linux")]
impl Drop for Cores {
    fn drop(&mut self) {
        // If this fails, the next parts of the benchmark run slower.
        let _ignored = rustix::thread::sched_setaffinity(None, &self.all);
    }
}

#[cfg(not(target_os = "linux"))]
impl Cores {
    /// A process cannot choose its cores on this system.
    pub(super) fn split() -> Result<Option<Self>> {
        Ok(None)
    }

    /// Does nothing on this system.
    pub(super) fn for_servers(&self) -> Result<()> {
        Ok(())
    }

    /// Does nothing on this system.
    pub(super) fn for_client(&self) -> Result<()> {
        Ok(())
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use rustix::thread::{CpuSet, sched_getaffinity};

    use super::Cores;

    #[test]
    fn servers_and_client_get_one_core_each_and_all_cores_afterwards() {
        let now = || sched_getaffinity(None).unwrap();
        let all = now();
        let Some(cores) = Cores::split().unwrap() else {
            assert_eq!(all.count(), 1, "a machine with two cores can be split");
            return;
        };
        let only = || -> Vec<usize> {
            let set = now();
            (0..CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).collect()
        };
        cores.for_servers().unwrap();
        let servers = only();
        cores.for_client().unwrap();
        let client = only();
        assert_eq!((servers.len(), client.len()), (1, 1));
        assert_ne!(servers, client);
        drop(cores);
        assert_eq!(now(), all);
    }
}
