//! The shutdown: the server first reports that it is not ready, then accepts no connections, and
//! finishes the active requests.

use std::time::Duration;

use capstan::server::Settings;
use rustls::version::TLS13;
use tokio::net::TcpStream;

use crate::client::{Client, config, connect, open, read_response, review, send, send_all_but_last_byte, wait_closed};
use crate::harness::{eventually, get, settings, start};

#[tokio::test(flavor = "multi_thread")]
async fn active_requests_finish_and_new_connections_are_refused() {
    let running = start(settings()).await;
    let mut idle = open(&running).await;
    let mut busy = open(&running).await;
    let last = send_all_but_last_byte(&mut busy, "late", "/review").await;
    eventually("the review is in flight", async || {
        get(running.health, "/metrics")
            .await
            .1
            .contains("capstan_reviews_in_flight 1")
    })
    .await;
    running.lifecycle.shut_down();
    wait_closed(&mut idle).await;
    eventually("the socket is closed", async || {
        TcpStream::connect(running.address).await.is_err()
    })
    .await;
    assert!(!running.ended.is_finished());
    assert_eq!(get(running.health, "/readyz").await.0, 503);
    send(&mut busy, &[last]).await;
    let text = read_response(&mut busy).await;
    assert!(
        text.starts_with("HTTP/1.1 200") && text.contains("connection: close"),
        "{text}"
    );
    assert_eq!(running.ended.await.unwrap(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn during_the_shutdown_delay_the_server_is_not_ready_and_asks_clients_to_reconnect() {
    let running = start(Settings {
        shutdown_delay: Duration::from_secs(3600),
        ..settings()
    })
    .await;
    let mut client = Client::new(open(&running).await).await.unwrap();
    let response = client.post("/review", review("a")).await.unwrap();
    assert!(!response.headers().contains_key("connection"));
    let two = connect(running.address, config(&running.trust, "h2", &[&TLS13]))
        .await
        .unwrap();
    let mut two = Client::new(two).await.unwrap();
    assert_eq!(two.post("/review", review("b")).await.unwrap().status(), 200);

    running.lifecycle.shut_down();
    let (code, text) = get(running.health, "/readyz").await;
    assert_eq!(code, 503);
    assert!(text.contains("[-]shutdown"), "{text}");
    let response = client.post("/review", review("c")).await.unwrap();
    assert_eq!(
        (response.status().as_u16(), &response.headers()["connection"]),
        (200, &"close".parse().unwrap())
    );
    // In HTTP/2, GOAWAY closes the connection.
    eventually("GOAWAY arrives", async || {
        two.post("/review", review("d")).await.is_err()
    })
    .await;
    // New connections are still served.
    let mut late = Client::new(open(&running).await).await.unwrap();
    assert_eq!(late.post("/review", review("e")).await.unwrap().status(), 200);
    running.ended.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_exceed_the_drain_timeout_are_closed_and_counted() {
    let running = start(Settings {
        drain_timeout: Duration::from_millis(100),
        ..settings()
    })
    .await;
    let mut busy = open(&running).await;
    send_all_but_last_byte(&mut busy, "stuck", "/review").await;
    eventually("the review is in flight", async || {
        get(running.health, "/metrics")
            .await
            .1
            .contains("capstan_reviews_in_flight 1")
    })
    .await;
    running.lifecycle.shut_down();
    assert_eq!(running.ended.await.unwrap(), 1);
}
