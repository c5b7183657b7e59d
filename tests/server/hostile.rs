//! Callers that stall, flood, lie and send rubbish: each gets an answer or is cut, and the others notice nothing.

use std::time::Duration;

use capstan::server::{BODY_LIMIT, Limits, Settings};
use tokio::net::TcpStream;

use crate::caller::{Caller, answer, closed, config, connect, half, head, open, review, send};
use crate::running::{Running, eventually, get, settings, start};

fn limited(change: impl FnOnce(&mut Limits)) -> Settings {
    let mut settings = settings();
    change(&mut settings.limits);
    settings
}

async fn still_serves(running: &Running) {
    let mut caller = Caller::new(open(running).await).await.unwrap();
    assert_eq!(caller.post("/review", review("others")).await.unwrap().status(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn handshakes_that_stall_hold_up_nobody_and_are_cut() {
    let running = start(limited(|limits| limits.handshake = Duration::from_secs(2))).await;
    let mut silent = Vec::new();
    for _ in 0..20 {
        silent.push(TcpStream::connect(running.address).await.unwrap());
    }
    still_serves(&running).await;
    for stream in &mut silent {
        closed(stream).await;
    }
    eventually("each is counted", async || {
        get(running.health, "/metrics")
            .await
            .1
            .contains(r#"handshakes_failed_total{reason="timeout"} 20"#)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_that_never_ends_is_cut() {
    let running = start(limited(|limits| limits.head = Duration::from_secs(1))).await;
    let mut stream = open(&running).await;
    send(&mut stream, b"POST /review HTTP/1.1\r\nHost:").await;
    closed(&mut stream).await;
    still_serves(&running).await;
    eventually("it is counted", async || {
        get(running.health, "/metrics")
            .await
            .1
            .contains(r#"connections_cut_total{reason="head"} 1"#)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_without_a_request_is_ended_in_both_protocols() {
    let idle = Duration::from_millis(200);
    let running = start(limited(|limits| (limits.idle, limits.head) = (idle, idle))).await;
    for alpn in ["h2", "http/1.1"] {
        let config = config(&running.trust, alpn, rustls::ALL_VERSIONS);
        closed(&mut connect(running.address, config).await.unwrap()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_never_ends_is_answered_at_the_deadline() {
    let running = start(limited(|limits| limits.deadline = Duration::from_secs(1))).await;
    let mut stream = open(&running).await;
    half(&mut stream, "slow", "/review").await;
    let text = answer(&mut stream).await;
    assert!(text.starts_with("HTTP/1.1 408"), "{text}");
    still_serves(&running).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_says_it_is_too_long_is_refused_before_it_is_sent() {
    let running = start(settings()).await;
    let mut stream = open(&running).await;
    send(&mut stream, head("/review", BODY_LIMIT + 1).as_bytes()).await;
    let text = answer(&mut stream).await;
    assert!(text.starts_with("HTTP/1.1 413"), "{text}");
    assert!(text.contains(r#""reason":"RequestEntityTooLarge""#), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_does_not_say_it_is_too_long_is_refused_when_it_is() {
    let running = start(settings()).await;
    let mut stream = open(&running).await;
    let chunked =
        "POST /review HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
    send(&mut stream, chunked.as_bytes()).await;
    let chunk = [b"100000\r\n".as_slice(), &vec![b' '; 1 << 20], b"\r\n"].concat();
    for _ in 0..8 {
        send(&mut stream, &chunk).await;
    }
    let text = answer(&mut stream).await;
    assert!(text.starts_with("HTTP/1.1 413"), "{text}");
    still_serves(&running).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_largest_body_is_read() {
    let running = start(settings()).await;
    let mut body = review("large").to_vec();
    body.resize(BODY_LIMIT, b' ');
    for alpn in ["h2", "http/1.1"] {
        let stream = connect(running.address, config(&running.trust, alpn, rustls::ALL_VERSIONS))
            .await
            .unwrap();
        let mut caller = Caller::new(stream).await.unwrap();
        assert_eq!(caller.post("/review", body.clone().into()).await.unwrap().status(), 200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rubbish_gets_an_answer() {
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
    let mut caller = Caller::new(open(&running).await).await.unwrap();
    for (body, code) in bodies {
        let response = caller.post("/review", body.clone().into()).await.unwrap();
        let start = String::from_utf8_lossy(&body[..body.len().min(60)]).into_owned();
        assert_eq!(response.status(), code, "{start}");
        serde_json::from_slice::<serde_json::Value>(response.body()).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_ends_one_review_and_nothing_else() {
    let running = start(settings()).await;
    let mut caller = Caller::new(open(&running).await).await.unwrap();
    let response = caller.post("/panic", review("a")).await.unwrap();
    assert_eq!(response.status(), 500);
    let status: serde_json::Value = serde_json::from_slice(response.body()).unwrap();
    assert_eq!(status["reason"], "InternalError");
    // On the same connection.
    assert_eq!(caller.post("/review", review("a")).await.unwrap().status(), 200);
    let metrics = get(running.health, "/metrics").await.1;
    assert!(
        metrics.contains("capstan_panics_total 1") && metrics.contains("capstan_reviews_in_flight 0"),
        "{metrics}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn overload_is_answered_at_once() {
    let running = start(limited(|limits| limits.reviews = 2)).await;
    let (mut first, mut second) = (open(&running).await, open(&running).await);
    let last = half(&mut first, "first", "/review").await;
    half(&mut second, "second", "/review").await;
    let mut caller = Caller::new(open(&running).await).await.unwrap();
    eventually("both hold a place", async || {
        get(running.health, "/metrics")
            .await
            .1
            .contains("capstan_reviews_in_flight 2")
    })
    .await;
    let response = caller.post("/review", review("third")).await.unwrap();
    assert_eq!(response.status(), 429);
    assert_eq!(response.headers()["retry-after"], "1");
    send(&mut first, &[last]).await;
    assert!(answer(&mut first).await.starts_with("HTTP/1.1 200"));
    assert_eq!(caller.post("/review", review("third")).await.unwrap().status(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_that_would_fill_the_memory_are_refused() {
    let running = start(limited(|limits| limits.bodies = 10 << 20)).await;
    let mut first = open(&running).await;
    send(&mut first, head("/review", 6 << 20).as_bytes()).await;
    let mut caller = Caller::new(open(&running).await).await.unwrap();
    eventually("the first holds its share", async || {
        get(running.health, "/metrics")
            .await
            .1
            .contains("capstan_reviews_in_flight 1")
    })
    .await;
    // The share is taken with the head, before a byte of the body has come.
    let large = vec![b' '; 5 << 20];
    eventually("the second is refused", async || {
        caller
            .post("/review", large.clone().into())
            .await
            .is_ok_and(|response| response.status() == 429)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn at_the_cap_the_idlest_connection_makes_room_and_a_busy_one_does_not() {
    let running = start(limited(|limits| limits.connections = 2)).await;
    let mut busy = open(&running).await;
    let last = half(&mut busy, "busy", "/review").await;
    eventually("the first is busy", async || {
        get(running.health, "/metrics")
            .await
            .1
            .contains("capstan_reviews_in_flight 1")
    })
    .await;
    for _ in 0..5 {
        // Each newcomer takes the place of the one before.
        let mut stream = open(&running).await;
        still_serves(&running).await;
        closed(&mut stream).await;
    }
    send(&mut busy, &[last]).await;
    assert!(answer(&mut busy).await.starts_with("HTTP/1.1 200"));
}
