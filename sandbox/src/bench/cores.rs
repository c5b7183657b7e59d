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
    pair: [rustix::thread::CpuSet; 2],
}

/// Who computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// The servers, which are started next.
    Servers,
    /// Whoever asks them.
    Asker,
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
        Ok(pair.next().zip(pair.next()).map(|(asker, servers)| Self {
            all,
            pair: [servers, asker],
        }))
    }

    /// From here on this thread, and what it starts, computes on the core of a part.
    pub(super) fn enter(&self, part: Part) -> Result<()> {
        use anyhow::Context as _;

        let [servers, asker] = &self.pair;
        let core = if part == Part::Servers { servers } else { asker };
        rustix::thread::sched_setaffinity(None, core).context("choosing a core")
    }
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
    pub(super) fn enter(&self, _part: Part) -> Result<()> {
        Ok(())
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use rustix::thread::{CpuSet, sched_getaffinity};

    use super::{Cores, Part};

    #[test]
    fn servers_and_whoever_asks_have_a_core_each_and_afterwards_all() {
        let now = || sched_getaffinity(None).unwrap();
        let all = now();
        let Some(cores) = Cores::split().unwrap() else {
            assert_eq!(all.count(), 1, "only one core cannot be shared out");
            return;
        };
        let only = |part| -> Vec<usize> {
            cores.enter(part).unwrap();
            let set = now();
            (0..CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).collect()
        };
        let (servers, asker) = (only(Part::Servers), only(Part::Asker));
        assert_eq!((servers.len(), asker.len()), (1, 1));
        assert_ne!(servers, asker);
        drop(cores);
        assert_eq!(now(), all);
    }
}
