//! Which core computes what: one for the servers, and one for whoever asks them.
//!
//! Where both share a core, a latency is above all how long the scheduler lets the other run: with a tick of 4 ms, a
//! p99 of 4 ms and more once the cores are full, whatever the server does.

use anyhow::Result;

/// A core for the servers, and another for whoever asks.
#[derive(Debug)]
pub(super) struct Cores {
    #[cfg(target_os = "linux")]
    all: rustix::thread::CpuSet,
    #[cfg(target_os = "linux")]
    servers: rustix::thread::CpuSet,
    #[cfg(target_os = "linux")]
    asker: rustix::thread::CpuSet,
}

#[cfg(target_os = "linux")]
impl Cores {
    /// Two of the cores that this process may use; `None` where it may use one only.
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
            .map(|(asker, servers)| Self { all, servers, asker }))
    }

    /// What this thread starts from here on computes on the core of the servers.
    pub(super) fn for_servers(&self) -> Result<()> {
        enter(&self.servers)
    }

    /// This thread computes on the core of whoever asks.
    pub(super) fn for_asker(&self) -> Result<()> {
        enter(&self.asker)
    }
}

#[cfg(target_os = "linux")]
fn enter(core: &rustix::thread::CpuSet) -> Result<()> {
    use anyhow::Context as _;

    rustix::thread::sched_setaffinity(None, core).context("choosing a core")
}

#[cfg(target_os = "linux")]
impl Drop for Cores {
    fn drop(&mut self) {
        // Where it fails, what comes next is slower.
        let _slower = rustix::thread::sched_setaffinity(None, &self.all);
    }
}

#[cfg(not(target_os = "linux"))]
impl Cores {
    /// A process cannot choose its cores here.
    pub(super) fn split() -> Result<Option<Self>> {
        Ok(None)
    }

    /// Nothing to choose.
    pub(super) fn for_servers(&self) -> Result<()> {
        Ok(())
    }

    /// Nothing to choose.
    pub(super) fn for_asker(&self) -> Result<()> {
        Ok(())
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use rustix::thread::{CpuSet, sched_getaffinity};

    use super::Cores;

    #[test]
    fn servers_and_whoever_asks_have_a_core_each_and_afterwards_all() {
        let now = || sched_getaffinity(None).unwrap();
        let all = now();
        let Some(cores) = Cores::split().unwrap() else {
            assert_eq!(all.count(), 1, "only one core cannot be shared out");
            return;
        };
        let only = || -> Vec<usize> {
            let set = now();
            (0..CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).collect()
        };
        cores.for_servers().unwrap();
        let servers = only();
        cores.for_asker().unwrap();
        let asker = only();
        assert_eq!((servers.len(), asker.len()), (1, 1));
        assert_ne!(servers, asker);
        drop(cores);
        assert_eq!(now(), all);
    }
}
