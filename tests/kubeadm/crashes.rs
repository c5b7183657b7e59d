//! Controllers that die after every write, before they receive the answer.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use capstan_sandbox::control_plane::{Call, Faults};

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

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_that_dies_after_every_write_creates_no_second_machine() {
    let world = World::new().await;
    let killer = Arc::new(Killer::default());
    let faults: Arc<dyn Faults> = Arc::clone(&killer) as Arc<dyn Faults>;
    let proxy = world.proxy(faults).await;
    let of_killer = Arc::clone(&killer);
    let client = proxy.client().await.unwrap();
    let lives = tokio::spawn(async move {
        loop {
            let life = of_killer.lives.fetch_add(1, Ordering::SeqCst);
            of_killer.is_dead.store(false, Ordering::SeqCst);
            // A restarted container keeps its identity, and another replica has another one.
            let running = World::start_with(&client, ["one", "two"][life / 2 % 2]);
            while !of_killer.is_dead.load(Ordering::SeqCst) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            running.controllers.stop().await;
        }
    });
    world.create("c", 3, "v1.35.0").await;
    world.wait_until_settled("c", 3, "v1.35.0").await;
    // While a request of a dead controller may still be carried out, nothing else is created or
    // deleted, which takes minutes. So the test ends here.
    assert_eq!(world.created().len(), 3, "{:#?}", killer.kills.lock().unwrap());
    lives.abort();
    let kills = killer.kills.lock().unwrap().clone();
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
