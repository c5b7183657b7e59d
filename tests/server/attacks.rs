//! Attacks that once stopped the server or exhausted its memory. The id of each defect is that of
//! `docs/defects.md`.

use std::time::Duration;

use bytes::Bytes;
use capstan::server::{Limits, Settings};
use http_body_util::Full;
use hyper::Request;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::version::TLS13;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::client::{Client, config, connect, head, open, read_response, review, send, wait_closed};
use crate::harness::{LARGE, Running, eventually, get, settings, start};

fn limited(change: impl FnOnce(&mut Limits)) -> Settings {
    let mut settings = settings();
    change(&mut settings.limits);
    settings
}

async fn code(running: &Running, path: &str, body: Bytes) -> u16 {
    let mut client = Client::new(open(running).await).await.unwrap();
    client.post(path, body).await.unwrap().status().as_u16()
}

async fn metrics_contain(running: &Running, line: &str) {
    eventually(line, async || get(running.health, "/metrics").await.1.contains(line)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn n1_a_long_review_delays_no_other_review_and_no_health_check() {
    let running = start(settings()).await;
    let mut long = Vec::new();
    for _ in 0..3 {
        let mut client = Client::new(open(&running).await).await.unwrap();
        long.push(tokio::spawn(async move {
            client.post("/block", review("long")).await.unwrap().status().as_u16()
        }));
    }
    eventually("all long reviews run", async || running.blocked.waiting().0 == 3).await;
    assert_eq!(code(&running, "/review", review("short")).await, 200);
    assert_eq!(get(running.health, "/livez").await.0, 200);
    assert_eq!(get(running.health, "/readyz").await.0, 200);
    for long in long {
        assert_eq!(long.await.unwrap(), 503, "the response comes at the deadline");
    }
    assert_eq!(running.blocked.waiting().0, 3, "the reviews still run");
    running.blocked.release();
}

#[tokio::test(flavor = "multi_thread")]
async fn n1_the_number_of_reviews_that_run_is_bounded() {
    let running = start(limited(|limits| {
        limits.judges = 2;
        limits.deadline = Duration::from_millis(500);
    }))
    .await;
    let mut reviews = tokio::task::JoinSet::new();
    for _ in 0..6 {
        let mut client = Client::new(open(&running).await).await.unwrap();
        reviews.spawn(async move { client.post("/block", review("long")).await.unwrap().status().as_u16() });
    }
    assert_eq!(reviews.join_all().await, [503; 6]);
    assert_eq!(running.blocked.waiting(), (2, 2));
    running.blocked.release();
    eventually("the reviews end", async || running.blocked.waiting().0 == 0).await;
    eventually("a review is served again", async || {
        code(&running, "/review", review("next")).await == 200
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn n3_responses_that_are_not_read_are_charged_and_their_connection_is_closed() {
    let running = start(limited(|limits| {
        limits.bodies = 3 * LARGE;
        limits.write = Duration::from_secs(3);
    }))
    .await;
    let stream = connect(running.address, config(&running.trust, "h2", &[&TLS13]))
        .await
        .unwrap();
    // The client accepts no byte of a response.
    let (mut sender, connection) = hyper::client::conn::http2::Builder::new(TokioExecutor::new())
        .initial_stream_window_size(0)
        .handshake(TokioIo::new(stream))
        .await
        .unwrap();
    let connection = tokio::spawn(connection);
    let mut codes = Vec::new();
    let mut unread = Vec::new();
    for _ in 0..3 {
        let request = Request::post("https://localhost/large")
            .header("content-type", "application/json")
            .body(Full::new(review("unread")))
            .unwrap();
        let response = sender.send_request(request).await.unwrap();
        codes.push(response.status().as_u16());
        unread.push(response);
    }
    // A quarter of the budget is for small bodies, so two responses are the most.
    assert_eq!(codes, [200, 200, 429]);
    let _closed = connection.await.unwrap();
    metrics_contain(&running, r#"connections_cut_total{reason="write"} 1"#).await;
    assert_eq!(code(&running, "/large", review("read")).await, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn n3_a_connection_that_stops_reading_is_closed() {
    let running = start(limited(|limits| limits.write = Duration::from_secs(1))).await;
    let mut stream = open(&running).await;
    let body = review("unread");
    send(&mut stream, head("/large", body.len()).as_bytes()).await;
    send(&mut stream, &body).await;
    metrics_contain(&running, r#"connections_cut_total{reason="write"} 1"#).await;
    let mut received = Vec::new();
    let end = stream.read_to_end(&mut received).await;
    assert!(end.is_err() || received.len() < LARGE, "the response is incomplete");
}

#[tokio::test(flavor = "multi_thread")]
async fn n4_announced_bodies_are_not_charged() {
    let running = start(limited(|limits| limits.bodies = 10 << 20)).await;
    let mut silent = Vec::new();
    for _ in 0..10 {
        let mut stream = open(&running).await;
        send(&mut stream, head("/review", 5 << 20).as_bytes()).await;
        silent.push(stream);
    }
    eventually("every announced body is awaited or refused", async || {
        let metrics = get(running.health, "/metrics").await.1;
        metrics.contains("capstan_reviews_in_flight 10") || metrics.contains(r#"code="429""#)
    })
    .await;
    assert_eq!(code(&running, "/review", review("small")).await, 200);
    let large = vec![b' '; 5 << 20];
    assert_ne!(code(&running, "/review", large.into()).await, 429);
}

/// The large bodies are one byte longer than a small one, so that they use the whole budget if
/// nothing is reserved. The small body is as long as it can be, so that it needs the reserve.
#[tokio::test(flavor = "multi_thread")]
async fn n4_large_bodies_leave_room_for_small_ones() {
    const SMALL_BODY: usize = 256 << 10;
    let running = start(limited(|limits| {
        limits.bodies = 8 * SMALL_BODY;
        limits.deadline = Duration::from_secs(3600);
    }))
    .await;
    let large = vec![b' '; SMALL_BODY + 1];
    let mut unfinished = Vec::new();
    let mut refused = 0;
    // A body that is being received can leave the budget again, so one refusal is not enough.
    eventually("large bodies are refused", async || {
        let mut stream = open(&running).await;
        send(&mut stream, head("/review", large.len()).as_bytes()).await;
        // The server closes the connection of a refused body.
        let _refused = stream.write_all(&large[1..]).await;
        let _flushed = stream.flush().await;
        unfinished.push(stream);
        let mut client = Client::new(open(&running).await).await.unwrap();
        let response = client.post("/review", large.clone().into()).await;
        // The server may close the connection before the client has sent the whole body.
        let is_refused = response.map_or(true, |response| response.status() == 429);
        refused = if is_refused { refused + 1 } else { 0 };
        refused == 4
    })
    .await;
    let mut small = review("small").to_vec();
    small.resize(SMALL_BODY, b' ');
    eventually("a small body is received", async || {
        let mut client = Client::new(open(&running).await).await.unwrap();
        let response = client.post("/review", small.clone().into()).await;
        response.is_ok_and(|response| response.status() == 200)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn n6_a_connection_without_a_request_is_served_when_the_server_drains() {
    let running = start(limited(|limits| limits.grace = Duration::from_secs(3600))).await;
    let mut new = open(&running).await;
    let used = open(&running).await;
    let mut used = Client::new(used).await.unwrap();
    assert_eq!(used.post("/review", review("before")).await.unwrap().status(), 200);
    running.lifecycle.shut_down();
    eventually("the socket is closed", async || {
        TcpStream::connect(running.address).await.is_err()
    })
    .await;
    eventually("an idle connection that had a request is closed", async || {
        used.post("/review", review("late")).await.is_err()
    })
    .await;
    let body = review("first");
    send(&mut new, head("/review", body.len()).as_bytes()).await;
    send(&mut new, &body).await;
    let text = read_response(&mut new).await;
    assert!(
        text.starts_with("HTTP/1.1 200") && text.contains("connection: close"),
        "{text}"
    );
    wait_closed(&mut new).await;
    assert_eq!(running.ended.await.unwrap(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn n6_a_connection_that_sends_no_request_is_closed_after_the_grace_period() {
    let running = start(limited(|limits| limits.grace = Duration::from_millis(100))).await;
    let mut new = open(&running).await;
    running.lifecycle.shut_down();
    wait_closed(&mut new).await;
    assert_eq!(running.ended.await.unwrap(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn n6_http2_serves_the_first_request_of_a_connection_before_it_sends_goaway() {
    let mut settings = limited(|limits| limits.grace = Duration::from_secs(3600));
    settings.shutdown_delay = Duration::from_secs(3600);
    let running = start(settings).await;
    running.lifecycle.shut_down();
    let stream = connect(running.address, config(&running.trust, "h2", &[&TLS13]))
        .await
        .unwrap();
    let mut client = Client::new(stream).await.unwrap();
    // The server has read the preface of the connection when it serves another one.
    assert_eq!(code(&running, "/review", review("other")).await, 200);
    assert_eq!(client.post("/review", review("first")).await.unwrap().status(), 200);
    eventually("GOAWAY arrives", async || {
        client.post("/review", review("next")).await.is_err()
    })
    .await;
    running.ended.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn n7_a_head_above_the_limit_is_refused_before_it_ends() {
    let running = start(limited(|limits| limits.head = Duration::from_secs(3600))).await;
    let mut stream = open(&running).await;
    send(&mut stream, b"POST /review HTTP/1.1\r\nx: ").await;
    send(&mut stream, &vec![b'x'; 32 << 10]).await;
    wait_closed(&mut stream).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn n7_unfinished_heads_are_in_the_byte_budget() {
    let running = start(limited(|limits| {
        limits.head = Duration::from_secs(3600);
        limits.bodies = 64 << 10;
    }))
    .await;
    let mut unfinished = Vec::new();
    for _ in 0..4 {
        let mut stream = open(&running).await;
        send(&mut stream, b"POST /review HTTP/1.1\r\nx: ").await;
        send(&mut stream, &vec![b'x'; 15 << 10]).await;
        unfinished.push(stream);
    }
    // At least one of these heads exceeds the budget together with the others.
    let mut last = open(&running).await;
    send(&mut last, b"POST /review HTTP/1.1\r\nx: ").await;
    send(&mut last, &vec![b'x'; 15 << 10]).await;
    unfinished.push(last);
    let mut closed = tokio::task::JoinSet::new();
    for mut stream in unfinished {
        closed.spawn(async move { wait_closed(&mut stream).await });
    }
    closed.join_next().await.unwrap().unwrap();
}
