//! Requests to the live page, without a browser.

use axum::body::Body;
use axum::http::{Method, Request};
use http_body_util::BodyExt as _;
use serde_json::json;
use tower::ServiceExt as _;

use super::super::content::{Content, Mirrored, SeenEvent, Side};
use super::super::report::Mood;
use super::*;

const PORT: u16 = 8000;
/// A name with markup, and one whose direction is from right to left.
const HOSTILE: &str = "<script>alert(1)</script>";
/// A manifest of a kind without rules.
const UNKNOWN: &str = "ConfigMap";

struct Fixed;

impl Source for Fixed {
    fn name(&self) -> String {
        HOSTILE.to_owned()
    }

    fn is_live(&self) -> bool {
        true
    }

    fn manifest(&self, kind: &str, name: &str) -> anyhow::Result<String> {
        ensure!(kind == "ControlPlaneMachineSet", "there is no {kind} {name}");
        Ok(format!("name: {name}"))
    }

    fn judge(&self, manifest: &str) -> anyhow::Result<Vec<Verdict>> {
        ensure!(!manifest.is_empty(), "the manifest must contain {HOSTILE}");
        if manifest == UNKNOWN {
            return Ok(vec![Verdict {
                subject: UNKNOWN.to_owned(),
                incomplete: true,
                ..Verdict::default()
            }]);
        }
        Ok(vec![Verdict {
            subject: manifest.to_owned(),
            refusals: vec![HOSTILE.to_owned()],
            warnings: vec![HOSTILE.to_owned()],
            incomplete: false,
            after: Some(hostile()),
        }])
    }
}

fn hostile() -> Report {
    let text = HOSTILE;
    let plan = json!({
        "set": text, "kind": text, "revision": text, "notes": [text],
        "changes": [{"field": text, "old": text, "new": [text]}],
        "placement": [{"index": 0, "failureDomain": text, "machines": [{"name": text}]}],
        "degraded": [{"reason": text, "message": text}],
        "next": [{"action": text, "machine": text, "because": text, "failureDomain": text}],
        "waits": [{"machine": null, "message": text}, {"machine": text, "message": text}],
        "rollout": [{"action": text, "machine": text, "because": text}],
    });
    let status = json!({
        "strategy": text, "conditions": [{"type": text, "status": text, "reason": text, "message": text}],
        "machines": [{"name": text, "phase": text, "node": text, "version": text, "hooks": [text], "waits": [text]}],
        "etcd": {"members": [{"name": text}], "voting": 1, "healthy": 0, "quorum": 1},
    });
    Report::of(plan, Some(status)).unwrap()
}

fn hostile_page() -> Content {
    let text = HOSTILE.to_owned();
    let pair = Mirrored {
        kind: text.clone(),
        name: text.clone(),
        authoritative: Some(Side::ClusterApi),
        in_cluster_api: false,
        synchronized: text.clone(),
        migration: text.clone(),
        mood: Mood::Alarm,
    };
    let event = SeenEvent {
        time: text.clone(),
        warning: true,
        subject: text.clone(),
        message: text.clone(),
        count: 2,
    };
    Content {
        reports: vec![hostile(), hostile()],
        mirrored: vec![pair],
        events: vec![event],
        outdated: Some(HOSTILE.to_owned()),
        notes: vec![text.clone()],
        empty: Some(text),
    }
}

struct Server {
    router: Router,
    token: String,
    updates: watch::Sender<Arc<Update>>,
}

fn server(update: Update) -> Server {
    let (updates, receiver) = watch::channel(Arc::new(update));
    let token = Token::random().unwrap();
    let shared = Shared {
        source: Box::new(Fixed),
        updates: receiver,
        token: token.clone(),
        port: PORT,
    };
    Server {
        router: router(Arc::new(shared)),
        token: token.as_str().to_owned(),
        updates,
    }
}

impl Server {
    async fn send(&self, method: Method, path: &str, fields: &[(&str, &str)], body: &str) -> Response {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "127.0.0.1:8000");
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::from(body.to_owned())).unwrap();
        self.router.clone().oneshot(request).await.unwrap()
    }

    async fn get(&self, path: &str) -> (StatusCode, String) {
        let response = self
            .send(Method::GET, &format!("/{}/{path}", self.token), &[], "")
            .await;
        let status = response.status();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(bytes.to_vec()).unwrap())
    }
}

#[tokio::test]
async fn every_text_of_a_report_is_escaped_on_every_page() {
    let server = server(Ok(hostile_page()));
    for path in ["", "report.html", "view.svg"] {
        let (status, page) = server.get(path).await;
        assert_eq!(status, StatusCode::OK);
        assert!(
            page.contains("&lt;script&gt;alert") && !page.contains("<script>alert"),
            "{path}: {page}"
        );
    }
    let path = format!("/{}/try", server.token);
    for body in ["", HOSTILE] {
        let answer = server.send(Method::POST, &path, &[], body).await;
        let bytes = answer.into_body().collect().await.unwrap().to_bytes();
        let answer = String::from_utf8(bytes.to_vec()).unwrap();
        assert!(
            answer.contains("&lt;script&gt;") && !answer.contains("<script>"),
            "{answer}"
        );
    }
}

#[tokio::test]
async fn a_request_without_the_token_or_of_another_origin_finds_nothing() {
    let server = server(Ok(hostile_page()));
    let token = server.token.clone();
    for path in ["", "events", "view.svg", "report.html", "style.css", "script.js"] {
        let own = format!("/{token}/{path}");
        for (path, fields) in [
            (format!("/{path}"), &[][..]),
            (format!("/{}/{path}", "0".repeat(32)), &[]),
            (own.clone(), &[("host", "evil.example")]),
            (own.clone(), &[("origin", "https://evil.example")]),
            (own, &[("sec-fetch-site", "cross-site")]),
        ] {
            let mut all = fields.to_vec();
            if let Some(position) = all.iter().position(|(name, _)| *name == "host") {
                // The builder appends, so a request with two hosts is sent as one without the own.
                let (_, host) = all.remove(position);
                let request = Request::builder().uri(&path).header("host", host);
                let response = server
                    .router
                    .clone()
                    .oneshot(request.body(Body::empty()).unwrap())
                    .await;
                assert_eq!(response.unwrap().status(), StatusCode::NOT_FOUND, "{path} {host}");
                continue;
            }
            let response = server.send(Method::GET, &path, &all, "").await;
            assert_eq!(response.status(), StatusCode::NOT_FOUND, "{path} {all:?}");
        }
    }
}

#[tokio::test]
async fn each_response_forbids_foreign_content_and_storage() {
    let server = server(Ok(hostile_page()));
    for path in ["", "view.svg", "report.html", "style.css", "script.js"] {
        let response = server
            .send(Method::GET, &format!("/{}/{path}", server.token), &[], "")
            .await;
        let header = |name: &str| response.headers()[name].to_str().unwrap().to_owned();
        assert!(
            header("content-security-policy").starts_with("default-src 'none'"),
            "{path}"
        );
        assert_eq!(header("x-content-type-options"), "nosniff");
        assert_eq!(header("cache-control"), "no-store");
    }
}

#[tokio::test]
async fn w48_a_page_of_a_cluster_that_does_not_respond_marks_its_state_as_old() {
    let outdated = "class=\"known outdated-state\"";
    let (_, page) = server(Ok(hostile_page())).get("").await;
    assert!(page.contains("id=\"outdated\"") && page.contains(outdated), "{page}");
    let current = Content {
        outdated: None,
        ..hostile_page()
    };
    let (_, page) = server(Ok(current)).get("").await;
    assert!(!page.contains("id=\"outdated\"") && !page.contains(outdated), "{page}");
}

#[tokio::test]
async fn w49_a_file_that_has_its_style_in_itself_may_use_it() {
    let server = server(Ok(hostile_page()));
    for (path, has_style) in [("report.html", true), ("view.svg", true), ("", false)] {
        let path = format!("/{}/{path}", server.token);
        let response = server.send(Method::GET, &path, &[], "").await;
        let policy = response.headers()["content-security-policy"].to_str().unwrap();
        assert_eq!(
            policy.contains("style-src 'unsafe-inline'"),
            has_style,
            "{path}: {policy}"
        );
    }
}

#[tokio::test]
async fn the_manifest_of_an_object_can_be_edited() {
    let server = server(Ok(hostile_page()));
    let path = format!("/{}/manifest", server.token);
    for (object, status, text) in [
        ("ControlPlaneMachineSet/a/b", StatusCode::OK, "name: a/b"),
        ("Secret/a", StatusCode::UNPROCESSABLE_ENTITY, "there is no Secret a"),
        (
            "Secret",
            StatusCode::UNPROCESSABLE_ENTITY,
            "the object must be a kind, a slash, and a name",
        ),
    ] {
        let answer = server.send(Method::POST, &path, &[], object).await;
        assert_eq!(answer.status(), status, "{object}");
        assert!(
            answer.headers()["content-type"]
                .to_str()
                .unwrap()
                .starts_with("text/plain")
        );
        let bytes = answer.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(bytes, text);
    }
}

#[tokio::test]
async fn w52_an_object_without_rules_is_not_called_allowed() {
    let server = server(Ok(hostile_page()));
    let path = format!("/{}/try", server.token);
    let answer = server.send(Method::POST, &path, &[], UNKNOWN).await;
    let bytes = answer.into_body().collect().await.unwrap().to_bytes();
    let answer = String::from_utf8(bytes.to_vec()).unwrap();
    assert!(
        answer.contains("Not fully checked") && !answer.contains("allowed"),
        "{answer}"
    );
}

#[tokio::test]
async fn the_live_page_has_no_inline_script_or_style() {
    let (_, page) = server(Ok(hostile_page())).get("").await;
    assert!(
        !page.contains("<style") && !page.contains(" style=") && !page.contains(" onclick"),
        "{page}"
    );
    assert_eq!(page.matches("<script").count(), 1);
    assert!(page.contains("<script src=\"script.js\" defer>"));
}

#[tokio::test]
async fn the_file_needs_neither_a_server_nor_a_script() {
    let (_, file) = server(Ok(hostile_page())).get("report.html").await;
    // The only links are those inside the page.
    let file = file.replace("href=\"#", "");
    for foreign in ["<script", "src=", "href=", "url(", "@import"] {
        assert!(!file.contains(foreign), "{foreign}");
    }
}

#[tokio::test]
async fn the_events_have_the_state_at_once_and_then_each_change() {
    let server = server(Err("there is no set".to_owned()));
    let response = server
        .send(Method::GET, &format!("/{}/events", server.token), &[], "")
        .await;
    let mut body = response.into_body();
    let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
    assert!(std::str::from_utf8(&first).unwrap().contains("there is no set"));
    server.updates.send(Arc::new(Ok(hostile_page()))).unwrap();
    let second = body.frame().await.unwrap().unwrap().into_data().unwrap();
    assert!(std::str::from_utf8(&second).unwrap().contains("control-plane"));
}

#[test]
fn the_page_listens_on_this_machine_only() {
    let refused = Dashboard::bind("0.0.0.0:0".parse().unwrap()).unwrap_err().to_string();
    assert!(refused.starts_with("--listen must be a loopback address"), "{refused}");
    let dashboard = Dashboard::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    assert!(dashboard.url().starts_with("http://127.0.0.1:"));
}
