//! Certificates in files change, and replicas restart, under load: no call fails.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use capstan::server::Settings;
use capstan::tls::files::{Files, Follower};
use capstan::tls::issue::{Authority, DAY};
use tokio::task::JoinSet;

use crate::caller::{Caller, config, connect, review};
use crate::running::{Running, eventually, names, now, settings, start_bare};

/// Calls until told to stop, with a new connection every so often, as API servers do that come and go. A call that fails
/// panics. Returns the certificates seen.
pub async fn call(
    address: impl Fn() -> SocketAddr,
    trust: impl Fn() -> String,
    calls: &AtomicUsize,
    stop: &AtomicBool,
) -> BTreeSet<Vec<u8>> {
    let mut seen = BTreeSet::new();
    while !stop.load(Ordering::Relaxed) {
        let config = config(&trust(), "http/1.1", rustls::ALL_VERSIONS);
        let stream = connect(address(), config).await.expect("a handshake failed");
        seen.insert(stream.get_ref().1.peer_certificates().unwrap()[0].to_vec());
        let mut caller = Caller::new(stream).await.unwrap();
        for _ in 0..25 {
            let response = caller.post("/review", review("load")).await.expect("a call failed");
            assert_eq!(response.status(), 200);
            calls.fetch_add(1, Ordering::Relaxed);
            if response.headers().contains_key("connection") {
                break;
            }
        }
    }
    seen
}

fn place(folder: &Path, authority: &Authority) {
    let leaf = authority.leaf(&names(), now(), DAY).unwrap();
    let write = |name: &str, text: &str| {
        std::fs::write(folder.join("next"), text).unwrap();
        std::fs::rename(folder.join("next"), folder.join(name)).unwrap();
    };
    // One after the other: in between, the two don't fit.
    write("tls.crt", &leaf.certificate);
    write("tls.key", &leaf.key);
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_change_fail_no_call_out_of_ten_thousand() {
    let running = start_bare(settings(), Ok(())).await;
    let authorities = [(); 2].map(|()| Authority::issue("test", now(), 10 * DAY).unwrap());
    let folder = tempfile::tempdir().unwrap();
    place(folder.path(), &authorities[0]);
    let files = Files {
        certificate: folder.path().join("tls.crt"),
        key: folder.path().join("tls.key"),
    };
    let mut follower = Follower::new(files, running.certificates.clone());
    assert!(follower.look().await.unwrap());
    tokio::spawn(follower.follow(Duration::from_millis(3)));

    let (calls, stop) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let trust = format!("{}{}", authorities[0].certificate, authorities[1].certificate);
    let mut callers = JoinSet::new();
    for _ in 0..4 {
        let (calls, stop, trust, address) = (Arc::clone(&calls), Arc::clone(&stop), trust.clone(), running.address);
        callers.spawn(async move { call(|| address, || trust.clone(), &calls, &stop).await });
    }
    let mut turn = 0;
    eventually("ten thousand calls", async || {
        place(folder.path(), &authorities[turn % 2]);
        turn += 1;
        assert!(callers.try_join_next().is_none(), "a caller failed");
        calls.load(Ordering::Relaxed) >= 10_000
    })
    .await;
    stop.store(true, Ordering::Relaxed);
    let seen: BTreeSet<_> = callers.join_all().await.into_iter().flatten().collect();
    assert!(seen.len() >= 5, "{} certificates seen in {turn} changes", seen.len());
}

/// One after the other, as a rolling restart does: the new replica is ready before the old one is told to leave.
#[tokio::test(flavor = "multi_thread")]
async fn a_rolling_restart_of_two_replicas_fails_no_call_out_of_ten_thousand() {
    let authority = Authority::issue("test", now(), 10 * DAY).unwrap();
    let leaf = authority.leaf(&names(), now(), DAY).unwrap();
    let replica = async || -> Running {
        let settings = Settings {
            shutdown_delay: Duration::from_secs(1),
            ..settings()
        };
        let running = start_bare(settings, Ok(())).await;
        running
            .certificates
            .serve(leaf.certificate.as_bytes(), leaf.key.as_bytes(), now())
            .unwrap();
        running
    };
    let mut replicas = [replica().await, replica().await];
    // The one address: as a Service does, it picks a replica for each connection, and learns late who has left.
    let endpoints = Arc::new(ArcSwap::from_pointee(
        replicas.iter().map(|one| one.address).collect::<Vec<_>>(),
    ));
    let (calls, stop) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let turn = Arc::new(AtomicUsize::new(0));
    let mut callers = JoinSet::new();
    for _ in 0..4 {
        let (calls, stop, endpoints, turn) = (
            Arc::clone(&calls),
            Arc::clone(&stop),
            Arc::clone(&endpoints),
            Arc::clone(&turn),
        );
        let trust = authority.certificate.clone();
        callers.spawn(async move {
            let pick = || {
                let all = endpoints.load();
                all[turn.fetch_add(1, Ordering::Relaxed) % all.len()]
            };
            call(pick, || trust.clone(), &calls, &stop).await
        });
    }
    let mut restarts = 0;
    while calls.load(Ordering::Relaxed) < 10_000 || restarts < 4 {
        let fresh = replica().await;
        let old = std::mem::replace(&mut replicas[restarts % 2], fresh);
        old.lifecycle.leave();
        // Endpoints lag behind readiness, within the shutdown delay.
        tokio::time::sleep(Duration::from_millis(100)).await;
        endpoints.store(Arc::new(replicas.iter().map(|one| one.address).collect()));
        assert_eq!(old.ended.await.unwrap(), 0, "connections were cut");
        restarts += 1;
        assert!(callers.try_join_next().is_none(), "a caller failed");
    }
    stop.store(true, Ordering::Relaxed);
    callers.join_all().await;
}
