//! Hostile clients that stall, flood or send invalid data. The server responds or closes the
//! connection, and continues to serve other clients.

use std::time::Duration;

use capstan::server::{BODY_LIMIT, Limits, Settings};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::client::{
    Client, config, connect, head, open, read_response, review, send, send_all_but_last_byte, wait_closed,
};
use crate::harness::{Running, eventually, get, settings, start};

fn limited(change: impl FnOnce(&mut Limits)) -> Settings {
    let mut settings = settings();
    change(&mut settings.limits);
    settings
}

async fn still_serves(running: &Running) {
    let mut client = Client::new(open(running).await).await.unwrap();
    assert_eq!(client.post("/review", review("others")).await.unwrap().status(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn stalled_handshakes_delay_no_other_client_and_are_closed() {
    let running = start(limited(|limits| limits.handshake = Duration::from_secs(2))).await;
    let mut silent = Vec::new();
    for _ in 0..20 {
        silent.push(TcpStream::connect(running.address).await.unwrap());
    }
    still_serves(&running).await;
    for stream in &mut silent {
        wait_closed(stream).await;
    }
    eventually("all closed handshakes are counted", async || {
        get(running.health, "/metrics")
            .await
            .1
            .contains(r#"handshakes_failed_total{reason="timeout"} 20"#)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_with_an_unfinished_head_is_closed() {
    let running = start(limited(|limits| limits.head = Duration::from_secs(1))).await;
    let mut stream = open(&running).await;
    send(&mut stream, b"POST /review HTTP/1.1\r\nHost:").await;
    wait_closed(&mut stream).await;
    still_serves(&running).await;
    eventually("the closed connection is counted", async || {
        get(running.health, "/metrics")
            .await
            .1
            .contains(r#"connections_cut_total{reason="head"} 1"#)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_connection_is_closed_in_both_protocols() {
    let idle = Duration::from_millis(200);
    let running = start(limited(|limits| (limits.idle, limits.head) = (idle, idle))).await;
    for alpn in ["h2", "http/1.1"] {
        let config = config(&running.trust, alpn, rustls::ALL_VERSIONS);
        wait_closed(&mut connect(running.address, config).await.unwrap()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unfinished_body_gets_a_response_at_the_deadline() {
    let running = start(limited(|limits| limits.deadline = Duration::from_secs(1))).await;
    let mut stream = open(&running).await;
    send_all_but_last_byte(&mut stream, "slow", "/review").await;
    let text = read_response(&mut stream).await;
    assert!(text.starts_with("HTTP/1.1 408"), "{text}");
    still_serves(&running).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_content_length_above_the_limit_is_refused_before_the_body_arrives() {
    let running = start(settings()).await;
    let mut stream = open(&running).await;
    send(&mut stream, head("/review", BODY_LIMIT + 1).as_bytes()).await;
    let text = read_response(&mut stream).await;
    assert!(text.starts_with("HTTP/1.1 413"), "{text}");
    assert!(text.contains(r#""reason":"RequestEntityTooLarge""#), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chunked_body_above_the_limit_is_refused() {
    let running = start(settings()).await;
    let mut stream = open(&running).await;
    let chunked =
        "POST /review HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
    send(&mut stream, chunked.as_bytes()).await;
    let chunk = [b"100000\r\n".as_slice(), &vec![b' '; 1 << 20], b"\r\n"].concat();
    for _ in 0..8 {
        send(&mut stream, &chunk).await;
    }
    let text = read_response(&mut stream).await;
    assert!(text.starts_with("HTTP/1.1 413"), "{text}");
    still_serves(&running).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_of_the_maximum_size_is_accepted() {
    let running = start(settings()).await;
    let mut body = review("large").to_vec();
    body.resize(BODY_LIMIT, b' ');
    for alpn in ["h2", "http/1.1"] {
        let stream = connect(running.address, config(&running.trust, alpn, rustls::ALL_VERSIONS))
            .await
            .unwrap();
        let mut client = Client::new(stream).await.unwrap();
        assert_eq!(client.post("/review", body.clone().into()).await.unwrap().status(), 200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_bodies_get_a_response() {
    let running = start(settings()).await;
    let nested = |depth: usize| {
        format!(
            r#"{{"request":{{"uid":"a","object":{}{}}}}}"#,
            "[".repeat(depth),
            "]".repeat(depth)
        )
    };
    let bodies: Vec<(Vec<u8>, u16)> = vec![
        (nested(100_000).into(), 200),
        (nested(1_000_000).into(), 200),
        (vec![b'{'; 1 << 20], 400),
        (b"\xff\xfe{}".to_vec(), 400),
        (b"{\"request\":{\"uid\":\"\xff\xff\"}}".to_vec(), 400),
        (
            format!(r#"{{"request":{{"uid":"a","object":{}}}}}"#, "9".repeat(1 << 20)).into(),
            200,
        ),
        (br#"{"request":{"uid":"a","object":1e999999999}}"#.to_vec(), 200),
        (br#"{"request":{"uid":"a","uid":"b"}}"#.to_vec(), 400),
        (br#"{"request":null}"#.to_vec(), 400),
        (b"null".to_vec(), 400),
        (b"[]".to_vec(), 400),
        (vec![0; 4096], 400),
        (br#"{"request":{"uid":"\u0000\ud83d\ude00 \"\\"}}"#.to_vec(), 200),
    ];
    let mut client = Client::new(open(&running).await).await.unwrap();
    for (body, code) in bodies {
        let response = client.post("/review", body.clone().into()).await.unwrap();
        let start = String::from_utf8_lossy(&body[..body.len().min(60)]).into_owned();
        assert_eq!(response.status(), code, "{start}");
        serde_json::from_slice::<serde_json::Value>(response.body()).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_fails_one_review_only() {
    let running = start(settings()).await;
    let mut client = Client::new(open(&running).await).await.unwrap();
    let response = client.post("/panic", review("a")).await.unwrap();
    assert_eq!(response.status(), 500);
    let status: serde_json::Value = serde_json::from_slice(response.body()).unwrap();
    assert_eq!(status["reason"], "InternalError");
    // The same connection still works.
    assert_eq!(client.post("/review", review("a")).await.unwrap().status(), 200);
    let metrics = get(running.health, "/metrics").await.1;
    assert!(
        metrics.contains("capstan_panics_total 1") && metrics.contains("capstan_reviews_in_flight 0"),
        "{metrics}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn reviews_above_the_limit_are_refused_at_once() {
    let running = start(limited(|limits| limits.reviews = 2)).await;
    let (mut first, mut second) = (open(&running).await, open(&running).await);
    let last = send_all_but_last_byte(&mut first, "first", "/review").await;
    send_all_but_last_byte(&mut second, "second", "/review").await;
    let mut client = Client::new(open(&running).await).await.unwrap();
    eventually("both reviews are in flight", async || {
        get(running.health, "/metrics")
            .await
            .1
            .contains("capstan_reviews_in_flight 2")
    })
    .await;
    let response = client.post("/review", review("third")).await.unwrap();
    assert_eq!(response.status(), 429);
    assert_eq!(response.headers()["retry-after"], "1");
    send(&mut first, &[last]).await;
    assert!(read_response(&mut first).await.starts_with("HTTP/1.1 200"));
    assert_eq!(client.post("/review", review("third")).await.unwrap().status(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_above_the_byte_budget_are_refused() {
    let running = start(limited(|limits| {
        limits.bodies = 10 << 20;
        limits.deadline = Duration::from_secs(60);
    }))
    .await;
    // The budget is charged for the bytes that have arrived.
    let large = vec![b' '; 5 << 20];
    let mut unfinished = Vec::new();
    eventually("a body is refused", async || {
        let mut stream = open(&running).await;
        send(&mut stream, head("/review", large.len() + 1).as_bytes()).await;
        // The server closes the connection of a refused body.
        let _refused = stream.write_all(&large).await;
        unfinished.push(stream);
        let mut client = Client::new(open(&running).await).await.unwrap();
        let response = client.post("/review", large.clone().into()).await;
        response.is_ok_and(|response| response.status() == 429)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn at_the_connection_limit_the_idlest_connection_is_evicted_and_a_busy_one_is_not() {
    let running = start(limited(|limits| limits.connections = 2)).await;
    let mut busy = open(&running).await;
    let last = send_all_but_last_byte(&mut busy, "busy", "/review").await;
    eventually("the first connection is busy", async || {
        get(running.health, "/metrics")
            .await
            .1
            .contains("capstan_reviews_in_flight 1")
    })
    .await;
    for _ in 0..5 {
        // Each new connection evicts the previous one.
        let mut stream = open(&running).await;
        still_serves(&running).await;
        wait_closed(&mut stream).await;
    }
    send(&mut busy, &[last]).await;
    assert!(read_response(&mut busy).await.starts_with("HTTP/1.1 200"));
}
