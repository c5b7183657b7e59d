//! Liveness, readiness and metrics, over plain HTTP on a separate port: the kubelet and Prometheus
//! need no certificate, and the port responds when TLS fails. It never exposes objects. The metrics
//! can have a port of their own instead (`metrics_port`).
//!
//! The port has a thread and a runtime of its own, so that it responds whatever the reviews do.

use std::fmt::Write;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, mpsc};

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};
use axum::routing::get;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use super::accept;
use super::answer::Reviewer;
use super::connection::Shared;
use super::lifecycle::Lifecycle;
use super::limits::{Budget, Limits};
use crate::tls::Certificates;

/// What `/readyz` checks.
#[derive(Clone)]
pub(super) struct Health {
    pub(super) reviewer: Arc<dyn Reviewer>,
    pub(super) certificates: Certificates,
    pub(super) lifecycle: Lifecycle,
    pub(super) registry: Arc<Registry>,
    /// Whether this port shows the metrics.
    pub(super) shows_metrics: bool,
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

/// All metrics, as OpenMetrics text.
pub(super) fn metrics(registry: &Registry) -> Response<Body> {
    let mut text = String::new();
    match prometheus_client::encoding::text::encode(&mut text, registry) {
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

/// A response with a text.
pub(super) fn respond(code: StatusCode, text: String, kind: &'static str) -> Response<Body> {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = code;
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// An error of a socket that names its address.
pub(super) fn at(address: SocketAddr, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{address}: {error}"))
}

/// Connections to the health port at the same time.
pub(super) const CONNECTIONS: usize = 64;
/// Bytes of incomplete request heads on the health port.
pub(super) const HEADS: usize = 1 << 20;

/// Binds the health port and serves it in its own thread until the guard is dropped. Returns the
/// bound address.
///
/// # Errors
///
/// The address cannot be bound, or the thread cannot be started.
pub(super) fn start(address: SocketAddr, health: Health, webhooks: &Shared) -> io::Result<(SocketAddr, DropGuard)> {
    let listener = std::net::TcpListener::bind(address).map_err(|error| at(address, &error))?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    // The port responds during the whole shutdown, so its lifecycle never drains.
    let shared = Shared {
        router: router(health),
        tls: None,
        limits: Arc::new(Limits {
            connections: CONNECTIONS,
            ..(*webhooks.limits).clone()
        }),
        budget: Budget::new(HEADS),
        lifecycle: Lifecycle::new(),
        metrics: Arc::clone(&webhooks.metrics),
    };
    let (report, started) = mpsc::channel();
    let serve = move || {
        let start = || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let listener = {
                let _context = runtime.enter();
                TcpListener::from_std(listener)?
            };
            Ok::<_, io::Error>((runtime, listener))
        };
        let (outcome, ready) = match start() {
            Ok(ready) => (Ok(()), Some(ready)),
            Err(error) => (Err(error), None),
        };
        // The receiver waits for this report.
        let _ignored = report.send(outcome);
        if let Some((runtime, listener)) = ready {
            runtime.block_on(async {
                tokio::select! {
                    () = accept::run(listener, shared, TaskTracker::new()) => {}
                    () = stopped.cancelled() => {}
                }
            });
        }
    };
    std::thread::Builder::new().name("health".to_owned()).spawn(serve)?;
    started
        .recv()
        .unwrap_or_else(|_| Err(io::Error::other("the thread of the health port ended")))?;
    Ok((address, stop.drop_guard()))
}

/// `/livez`, `/readyz`, and `/metrics` unless another port shows them.
fn router(health: Health) -> Router {
    let (ready, measured) = (health.clone(), health);
    let router = Router::new()
        // The process is alive if it responds. A failed dependency is no reason for a restart.
        .route(
            "/livez",
            get(|| async { respond(StatusCode::OK, "ok\n".to_owned(), "text/plain; charset=utf-8") }),
        )
        .route("/readyz", get(move || async move { readiness(&ready) }));
    if measured.shows_metrics {
        router.route("/metrics", get(move || async move { metrics(&measured.registry) }))
    } else {
        router
    }
}
