//! How the server leaves: not ready first, then nothing new, and what runs is finished.

use std::time::Duration;

use capstan::server::Settings;
use rustls::version::TLS13;
use tokio::net::TcpStream;

use crate::caller::{Caller, answer, closed, config, connect, half, open, review, send};
use crate::running::{eventually, get, settings, start};

#[tokio::test(flavor = "multi_thread")]
async fn what_runs_is_finished_and_nothing_new_is_taken() {
    let running = start(settings()).await;
    let mut idle = open(&running).await;
    let mut busy = open(&running).await;
    let last = half(&mut busy, "late", "/review").await;
    eventually("the review runs", async || {
        get(running.health, "/metrics")
            .await
            .1
            .contains("capstan_reviews_in_flight 1")
    })
    .await;
    running.lifecycle.leave();
    closed(&mut idle).await;
    eventually("the socket is closed", async || {
        TcpStream::connect(running.address).await.is_err()
    })
    .await;
    assert!(!running.ended.is_finished());
    assert_eq!(get(running.health, "/readyz").await.0, 503);
    send(&mut busy, &[last]).await;
    let text = answer(&mut busy).await;
    assert!(
        text.starts_with("HTTP/1.1 200") && text.contains("connection: close"),
        "{text}"
    );
    assert_eq!(running.ended.await.unwrap(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn before_it_stops_it_is_not_ready_and_sends_its_callers_elsewhere() {
    let running = start(Settings {
        shutdown_delay: Duration::from_secs(3600),
        ..settings()
    })
    .await;
    let mut caller = Caller::new(open(&running).await).await.unwrap();
    let response = caller.post("/review", review("a")).await.unwrap();
    assert!(!response.headers().contains_key("connection"));
    let two = connect(running.address, config(&running.trust, "h2", &[&TLS13]))
        .await
        .unwrap();
    let mut two = Caller::new(two).await.unwrap();
    assert_eq!(two.post("/review", review("b")).await.unwrap().status(), 200);

    running.lifecycle.leave();
    let (code, text) = get(running.health, "/readyz").await;
    assert_eq!(code, 503);
    assert!(text.contains("[-]shutdown"), "{text}");
    let response = caller.post("/review", review("c")).await.unwrap();
    assert_eq!(
        (response.status().as_u16(), &response.headers()["connection"]),
        (200, &"close".parse().unwrap())
    );
    // HTTP/2 says goodbye by itself.
    eventually("GOAWAY arrives", async || {
        two.post("/review", review("d")).await.is_err()
    })
    .await;
    // New connections are served all the while.
    let mut late = Caller::new(open(&running).await).await.unwrap();
    assert_eq!(late.post("/review", review("e")).await.unwrap().status(), 200);
    running.ended.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_end_in_time_is_cut_and_counted() {
    let running = start(Settings {
        drain_timeout: Duration::from_millis(100),
        ..settings()
    })
    .await;
    let mut busy = open(&running).await;
    half(&mut busy, "stuck", "/review").await;
    eventually("the review runs", async || {
        get(running.health, "/metrics")
            .await
            .1
            .contains("capstan_reviews_in_flight 1")
    })
    .await;
    running.lifecycle.leave();
    assert_eq!(running.ended.await.unwrap(), 1);
}
