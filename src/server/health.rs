//! Liveness, readiness and metrics, over plain HTTP on a separate port: the kubelet and Prometheus
//! need no certificate, and the port responds when TLS fails. It never exposes objects.

use std::fmt::Write;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};
use axum::routing::get;
use prometheus_client::registry::Registry;

use super::answer::Reviewer;
use super::lifecycle::Lifecycle;
use crate::tls::Certificates;

/// What `/readyz` checks.
#[derive(Clone)]
pub(super) struct Health {
    pub(super) reviewer: Arc<dyn Reviewer>,
    pub(super) certificates: Certificates,
    pub(super) lifecycle: Lifecycle,
    pub(super) registry: Arc<Registry>,
}

/// Each check with its failure. The server binds its sockets before it serves this port, so there
/// is no check for them.
fn checks(health: &Health) -> [(&'static str, Result<(), String>); 3] {
    let shutdown = if health.lifecycle.is_shutting_down() {
        Err("the server is shutting down".to_owned())
    } else {
        Ok(())
    };
    [
        ("shutdown", shutdown),
        (
            "certificate",
            health.certificates.valid_at(jiff::Timestamp::now().as_second()),
        ),
        ("caches", health.reviewer.ready()),
    ]
}

fn readiness(health: &Health) -> Response<Body> {
    let checks = checks(health);
    let mut text = String::new();
    for (name, state) in &checks {
        // Writing to a String does not fail.
        let _ = match state {
            Ok(()) => writeln!(text, "[+]{name} ok"),
            Err(reason) => writeln!(text, "[-]{name} {reason}"),
        };
    }
    let ready = checks.iter().all(|(_, state)| state.is_ok());
    let code = if ready {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    respond(code, text, "text/plain; charset=utf-8")
}

fn metrics(health: &Health) -> Response<Body> {
    let mut text = String::new();
    match prometheus_client::encoding::text::encode(&mut text, &health.registry) {
        Ok(()) => respond(
            StatusCode::OK,
            text,
            "application/openmetrics-text; version=1.0.0; charset=utf-8",
        ),
        Err(error) => respond(
            StatusCode::INTERNAL_SERVER_ERROR,
            error.to_string(),
            "text/plain; charset=utf-8",
        ),
    }
}

fn respond(code: StatusCode, text: String, kind: &'static str) -> Response<Body> {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = code;
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// `/livez`, `/readyz`, `/metrics`.
pub(super) fn router(health: Health) -> Router {
    let (ready, measured) = (health.clone(), health);
    Router::new()
        // The process is alive if it responds. A failed dependency is no reason for a restart.
        .route(
            "/livez",
            get(|| async { respond(StatusCode::OK, "ok\n".to_owned(), "text/plain; charset=utf-8") }),
        )
        .route("/readyz", get(move || async move { readiness(&ready) }))
        .route("/metrics", get(move || async move { metrics(&measured) }))
}
