//! No call fails while certificate files change or replicas restart under load.

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

use crate::client::{Client, config, connect, review};
use crate::harness::{Running, eventually, names, now, settings, start_bare};

/// Calls the server until `stop` is set, with a new connection after 25 calls. A failed call
/// panics. Returns the certificates that the server presented.
pub async fn call(
    address: impl Fn() -> SocketAddr,
    trust: impl Fn() -> String,
    calls: &AtomicUsize,
    stop: &AtomicBool,
) -> BTreeSet<Vec<u8>> {
    let mut seen = BTreeSet::new();
    while !stop.load(Ordering::Relaxed) {
        let config = config(&trust(), "http/1.1", rustls::ALL_VERSIONS);
        let stream = connect(address(), config).await.expect("a TLS handshake failed");
        seen.insert(stream.get_ref().1.peer_certificates().unwrap()[0].to_vec());
        let mut client = Client::new(stream).await.unwrap();
        for _ in 0..25 {
            let response = client.post("/review", review("load")).await.expect("a call failed");
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
    // Between the two writes, the certificate does not match the key.
    write("tls.crt", &leaf.certificate);
    write("tls.key", &leaf.key);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_call_fails_while_the_certificate_files_change() {
    let running = start_bare(settings(), Ok(())).await;
    let authorities = [(); 2].map(|()| Authority::issue("test", now(), 10 * DAY).unwrap());
    let folder = tempfile::tempdir().unwrap();
    place(folder.path(), &authorities[0]);
    let files = Files {
        certificate: folder.path().join("tls.crt"),
        key: folder.path().join("tls.key"),
    };
    let mut follower = Follower::new(files, running.certificates.clone());
    assert!(follower.reload().await.unwrap());
    tokio::spawn(follower.follow(Duration::from_millis(3)));

    let (calls, stop) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let trust = format!("{}{}", authorities[0].certificate, authorities[1].certificate);
    let mut clients = JoinSet::new();
    for _ in 0..4 {
        let (calls, stop, trust, address) = (Arc::clone(&calls), Arc::clone(&stop), trust.clone(), running.address);
        clients.spawn(async move { call(|| address, || trust.clone(), &calls, &stop).await });
    }
    let mut turn = 0;
    eventually("ten thousand calls were made", async || {
        place(folder.path(), &authorities[turn % 2]);
        turn += 1;
        assert!(clients.try_join_next().is_none(), "a client failed");
        calls.load(Ordering::Relaxed) >= 10_000
    })
    .await;
    stop.store(true, Ordering::Relaxed);
    let seen: BTreeSet<_> = clients.join_all().await.into_iter().flatten().collect();
    assert!(
        seen.len() >= 5,
        "the clients saw {} certificates in {turn} changes",
        seen.len()
    );
}

/// As in a rolling update, a new replica is ready before an old one shuts down.
#[tokio::test(flavor = "multi_thread")]
async fn no_call_fails_during_rolling_restarts_of_two_replicas() {
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
    // Like a Service, this picks a replica for each connection, and is updated late.
    let endpoints = Arc::new(ArcSwap::from_pointee(
        replicas.iter().map(|one| one.address).collect::<Vec<_>>(),
    ));
    let (calls, stop) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let turn = Arc::new(AtomicUsize::new(0));
    let mut clients = JoinSet::new();
    for _ in 0..4 {
        let (calls, stop, endpoints, turn) = (
            Arc::clone(&calls),
            Arc::clone(&stop),
            Arc::clone(&endpoints),
            Arc::clone(&turn),
        );
        let trust = authority.certificate.clone();
        clients.spawn(async move {
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
        old.lifecycle.shut_down();
        // The endpoints change after the readiness, but within the shutdown delay.
        tokio::time::sleep(Duration::from_millis(100)).await;
        endpoints.store(Arc::new(replicas.iter().map(|one| one.address).collect()));
        assert_eq!(
            old.ended.await.unwrap(),
            0,
            "no connection is closed by the drain timeout"
        );
        restarts += 1;
        assert!(clients.try_join_next().is_none(), "a client failed");
    }
    stop.store(true, Ordering::Relaxed);
    clients.join_all().await;
}
