//! Controllers that die after every write, before they receive the answer.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use capstan_sandbox::control_plane::{Call, Faults, Proxy};

use crate::world::World;

/// Drops every request of a controller that has made its write.
#[derive(Default)]
struct Killer {
    is_dead: AtomicBool,
    lives: AtomicUsize,
    kills: Mutex<Vec<String>>,
}

impl Faults for Killer {
    fn before(&self, call: &Call) -> bool {
        call.write.is_none() || !self.is_dead.load(Ordering::SeqCst)
    }

    fn after(&self, call: &Call, code: u16) -> bool {
        // The status follows from the objects, so a lost status decides nothing.
        if call.write.is_none() || call.path.contains("/status") || !(200..300).contains(&code) {
            return true;
        }
        self.is_dead.store(true, Ordering::SeqCst);
        let kill = format!("{} {}", call.method, call.path);
        self.kills.lock().unwrap().push(kill);
        false
    }
}

/// Controllers that take over from each other, because each dies after its first write.
pub(crate) struct Lives {
    killer: Arc<Killer>,
    task: tokio::task::JoinHandle<()>,
    _proxy: Proxy,
}

impl Lives {
    pub(crate) async fn start(world: &World) -> Self {
        let killer = Arc::new(Killer::default());
        let proxy = world.proxy(Arc::clone(&killer) as Arc<dyn Faults>).await;
        let client = proxy.client().await.unwrap();
        let of_task = Arc::clone(&killer);
        let task = tokio::spawn(async move {
            loop {
                let life = of_task.lives.fetch_add(1, Ordering::SeqCst);
                of_task.is_dead.store(false, Ordering::SeqCst);
                // A restarted container keeps its identity, and another replica has another one.
                let running = World::start_with(&client, ["one", "two"][life / 2 % 2]);
                while !of_task.is_dead.load(Ordering::SeqCst) {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                running.controllers.stop().await;
            }
        });
        Self {
            killer,
            task,
            _proxy: proxy,
        }
    }

    /// Stops the last controller, and returns the writes after which one died.
    pub(crate) async fn stop(self) -> Vec<String> {
        self.task.abort();
        let _cancelled = self.task.await;
        // A controller without its task may still make one write. The next one fails.
        self.killer.is_dead.store(true, Ordering::SeqCst);
        self.killer.kills.lock().unwrap().clone()
    }

    fn kills(&self) -> Vec<String> {
        self.killer.kills.lock().unwrap().clone()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_that_dies_after_every_write_creates_no_second_machine() {
    let world = World::new().await;
    let lives = Lives::start(&world).await;
    world.create("c", 3, "v1.35.0").await;
    world.wait_until_settled("c", 3, "v1.35.0").await;
    // While a request of a dead controller may still be carried out, nothing else is created or
    // deleted, which takes minutes. So the test ends here.
    assert_eq!(world.created().len(), 3, "{:#?}", lives.kills());
    let kills = lives.stop().await;
    // Every Secret is created once.
    let secrets = world
        .writes()
        .into_iter()
        .filter(|write| write.starts_with("create secrets/"));
    let secrets: Vec<String> = secrets.collect();
    assert_eq!(secrets.len(), 5, "{secrets:?}");
    for part in [
        "/secrets",
        "/devmachines",
        "/kubeadmconfigs",
        "/machines",
        "/kubeadmcontrolplanes/c",
    ] {
        assert!(kills.iter().any(|kill| kill.contains(part)), "{part}: {kills:#?}");
    }
}
