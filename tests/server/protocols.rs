//! Protocols and TLS versions, and the responses to well-behaved clients.

use http_body_util::Full;
use hyper::{Request, StatusCode};
use rustls::version::{TLS12, TLS13};

use crate::client::{Client, config, connect, open, review};
use crate::harness::{get, settings, start, start_bare};
use capstan::tls::{MinVersion, Policy};

#[tokio::test(flavor = "multi_thread")]
async fn both_protocols_and_both_tls_versions_get_a_verdict() {
    let running = start(settings()).await;
    for alpn in ["h2", "http/1.1"] {
        for version in [&TLS12, &TLS13] {
            let stream = connect(running.address, config(&running.trust, alpn, &[version]))
                .await
                .unwrap();
            assert_eq!(stream.get_ref().1.alpn_protocol(), Some(alpn.as_bytes()));
            let mut client = Client::new(stream).await.unwrap();
            for uid in ["one", "two"] {
                let response = client.post("/review", review(uid)).await.unwrap();
                assert_eq!(response.status(), StatusCode::OK);
                assert_eq!(response.headers()["content-type"], "application/json");
                let body: serde_json::Value = serde_json::from_slice(response.body()).unwrap();
                assert_eq!(body["response"]["uid"], uid);
                assert_eq!(body["response"]["allowed"], true);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tls_version_below_the_minimum_is_refused() {
    let running = start(capstan::server::Settings {
        tls: Policy {
            min_version: MinVersion::Tls13,
            ..Policy::default()
        },
        ..settings()
    })
    .await;
    assert!(
        connect(running.address, config(&running.trust, "h2", &[&TLS12]))
            .await
            .is_err()
    );
    assert!(
        connect(running.address, config(&running.trust, "h2", &[&TLS13]))
            .await
            .is_ok()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_key_exchange_is_post_quantum_if_the_client_supports_it() {
    let running = start(settings()).await;
    let stream = open(&running).await;
    let group = stream.get_ref().1.negotiated_key_exchange_group().unwrap();
    assert_eq!(group.name(), rustls::NamedGroup::X25519MLKEM768);
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_are_not_reviews_get_an_http_code_and_a_status() {
    let running = start(settings()).await;
    for alpn in ["h2", "http/1.1"] {
        let stream = connect(running.address, config(&running.trust, alpn, &[&TLS13]))
            .await
            .unwrap();
        let mut client = Client::new(stream).await.unwrap();
        let mut ask = async |method: &str, path: &str, kind: Option<&str>, body: &'static str| {
            let mut request = Request::builder()
                .method(method)
                .uri(format!("https://localhost{path}"))
                .header("host", "localhost");
            if let Some(kind) = kind {
                request = request.header("content-type", kind);
            }
            let response = client
                .send(request.body(Full::new(body.into())).unwrap())
                .await
                .unwrap();
            let status: serde_json::Value = serde_json::from_slice(response.body()).unwrap();
            assert_eq!(status["kind"], "Status");
            assert_eq!(status["code"], response.status().as_u16());
            (
                response.status().as_u16(),
                status["reason"].as_str().unwrap().to_owned(),
            )
        };
        let json = Some("application/json");
        assert_eq!(
            ask("POST", "/review", Some("text/plain"), "{}").await,
            (415, "UnsupportedMediaType".to_owned())
        );
        assert_eq!(
            ask("POST", "/review", None, "{}").await,
            (415, "UnsupportedMediaType".to_owned())
        );
        assert_eq!(ask("POST", "/review", json, "{}").await, (400, "BadRequest".to_owned()));
        assert_eq!(ask("POST", "/review", json, "").await, (400, "BadRequest".to_owned()));
        assert_eq!(
            ask("GET", "/review", json, "").await,
            (405, "MethodNotAllowed".to_owned())
        );
        assert_eq!(
            ask("POST", "/elsewhere", json, "{}").await,
            (404, "NotFound".to_owned())
        );
        let parameters = Some("application/json; charset=utf-8");
        assert_eq!(ask("POST", "/review", parameters, "{").await.0, 400);
        // The connection still works.
        assert_eq!(
            client.post("/review", review("a")).await.unwrap().status(),
            StatusCode::OK
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn readyz_names_what_is_missing_and_metrics_count_requests() {
    let bare = start_bare(settings(), Err("3 machines not read yet".to_owned())).await;
    let (code, text) = get(bare.health, "/readyz").await;
    assert_eq!(code, 503);
    assert!(text.contains("[-]certificate none yet"), "{text}");
    assert!(text.contains("[-]caches 3 machines not read yet"), "{text}");
    assert!(text.contains("[+]shutdown ok"), "{text}");
    assert_eq!(get(bare.health, "/livez").await, (200, "ok\n".to_owned()));

    let running = start(settings()).await;
    assert_eq!(get(running.health, "/readyz").await.0, 200);
    let mut client = Client::new(open(&running).await).await.unwrap();
    client.post("/review", review("a")).await.unwrap();
    client.post("/review", "{}".into()).await.unwrap();
    let (code, text) = get(running.health, "/metrics").await;
    assert_eq!(code, 200);
    for line in [
        r#"capstan_requests_total{route="/review",code="200"} 1"#,
        r#"capstan_requests_total{route="/review",code="400"} 1"#,
        r#"capstan_decisions_total{route="/review",verdict="allowed",rule=""} 1"#,
        r#"capstan_review_duration_seconds_count{route="/review"} 2"#,
        r#"capstan_tls_reloads_total{outcome="ok"} 1"#,
        "capstan_connections 1",
        "capstan_reviews_in_flight 0",
        "capstan_panics_total 0",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is missing in\n{text}");
    }
    assert!(
        text.contains("\ncapstan_tls_certificate_expiry_timestamp_seconds 1") && text.ends_with("# EOF\n"),
        "{text}"
    );
}
