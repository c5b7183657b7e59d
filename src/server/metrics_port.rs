//! The metrics on a port of their own, over TLS. A client proves with a token that it may read
//! them.
//!
//! This module decides nothing about tokens: it asks [`MetricsClients`]. Without a clear answer, it
//! must not show the metrics.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use axum::routing::get;
use futures::future::BoxFuture;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use super::accept;
use super::connection::Shared;
use super::health::{CONNECTIONS, HEADS, at, metrics, respond};
use super::lifecycle::Lifecycle;
use super::limits::{Budget, Limits};
use super::metrics::Metrics;

/// The longest token that is examined.
const TOKEN_LIMIT: usize = 16 << 10;

/// The clients that may read the metrics.
pub trait MetricsClients: Send + Sync + fmt::Debug + 'static {
    /// Whether the client with this token may read the metrics.
    fn access(&self, token: String) -> BoxFuture<'static, Access>;
}

/// Whether a client may read the metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    /// It may.
    Granted,
    /// The token is not valid.
    Unauthenticated,
    /// The token is valid, and its user may not.
    Forbidden,
    /// It is unknown now, for this reason.
    Unknown(String),
}

/// The port of the metrics.
#[derive(Clone, Debug)]
pub struct MetricsPort {
    /// Its address.
    pub address: SocketAddr,
    /// The clients that may read the metrics.
    pub clients: Arc<dyn MetricsClients>,
}

/// A bound port, which is served until this is dropped.
pub(super) struct Served {
    pub(super) address: SocketAddr,
    _task: AbortOnDropHandle<()>,
}

/// Binds the port and serves it. The connections do not count in the metrics of the webhooks.
///
/// # Errors
///
/// The address cannot be bound.
pub(super) async fn serve(
    port: MetricsPort,
    tls: TlsAcceptor,
    limits: Limits,
    registry: Arc<Registry>,
) -> io::Result<Served> {
    let listener = TcpListener::bind(port.address)
        .await
        .map_err(|error| at(port.address, &error))?;
    let address = listener.local_addr()?;
    let shared = Shared {
        router: router(registry, port.clients),
        tls: Some(tls),
        limits: Arc::new(Limits {
            connections: CONNECTIONS,
            ..limits
        }),
        budget: Budget::new(HEADS),
        // The port responds during the whole shutdown.
        lifecycle: Lifecycle::new(),
        metrics: Arc::new(Metrics::register(&mut Registry::default())),
    };
    let task = tokio::spawn(accept::run(listener, shared, TaskTracker::new()));
    Ok(Served {
        address,
        _task: AbortOnDropHandle::new(task),
    })
}

fn router(registry: Arc<Registry>, clients: Arc<dyn MetricsClients>) -> Router {
    let answer = move |headers: HeaderMap| {
        let (registry, clients) = (Arc::clone(&registry), Arc::clone(&clients));
        async move { answer(&headers, &registry, &*clients).await }
    };
    Router::new().route("/metrics", get(answer))
}

async fn answer(headers: &HeaderMap, registry: &Registry, clients: &dyn MetricsClients) -> Response<Body> {
    let Some(token) = token(headers) else {
        return refused(StatusCode::UNAUTHORIZED, "a bearer token is required");
    };
    match clients.access(token).await {
        Access::Granted => metrics(registry),
        Access::Unauthenticated => refused(StatusCode::UNAUTHORIZED, "the token is not valid"),
        Access::Forbidden => refused(
            StatusCode::FORBIDDEN,
            "the user may not get /metrics; bind it to the ClusterRole capstan-metrics-reader",
        ),
        Access::Unknown(reason) => refused(StatusCode::SERVICE_UNAVAILABLE, &reason),
    }
}

/// The bearer token of a request.
fn token(headers: &HeaderMap) -> Option<String> {
    let header = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = header.split_once(' ')?;
    let token = token.trim();
    let is_usable = scheme.eq_ignore_ascii_case("bearer") && !token.is_empty() && token.len() <= TOKEN_LIMIT;
    is_usable.then(|| token.to_owned())
}

fn refused(code: StatusCode, reason: &str) -> Response<Body> {
    let mut response = respond(code, format!("{reason}\n"), "text/plain; charset=utf-8");
    if code == StatusCode::UNAUTHORIZED {
        let challenge = HeaderValue::from_static("Bearer");
        response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Known(Access);

    impl MetricsClients for Known {
        fn access(&self, _token: String) -> BoxFuture<'static, Access> {
            let access = self.0.clone();
            Box::pin(async move { access })
        }
    }

    async fn code(header: Option<&str>, access: Access) -> u16 {
        let mut headers = HeaderMap::new();
        if let Some(header) = header {
            headers.insert(header::AUTHORIZATION, HeaderValue::from_str(header).unwrap());
        }
        let response = answer(&headers, &Registry::default(), &Known(access)).await;
        assert_eq!(
            response.status() == 401,
            response.headers().contains_key(header::WWW_AUTHENTICATE)
        );
        response.status().as_u16()
    }

    #[tokio::test]
    async fn only_a_token_that_grants_access_shows_the_metrics() {
        for header in [None, Some("Basic YTpi"), Some("Bearer "), Some("Bearer")] {
            assert_eq!(code(header, Access::Granted).await, 401, "{header:?}");
        }
        let long = format!("Bearer {}", "a".repeat(TOKEN_LIMIT + 1));
        assert_eq!(code(Some(&long), Access::Granted).await, 401);
        let token = Some("bearer abc");
        assert_eq!(code(token, Access::Granted).await, 200);
        assert_eq!(code(token, Access::Unauthenticated).await, 401);
        assert_eq!(code(token, Access::Forbidden).await, 403);
        assert_eq!(code(token, Access::Unknown("later".to_owned())).await, 503);
    }
}
