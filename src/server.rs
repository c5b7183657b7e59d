//! The HTTPS server that the API server calls. It reads requests under limits, asks a [`Reviewer`]
//! for the verdict, and writes the response.
//!
//! It makes no decision about objects and never reads one. Every client that can reach the port is
//! untrusted: each read has a time limit and a size limit, each refusal is a response, and a panic
//! ends one review only.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::DropGuard;
use tokio_util::task::TaskTracker;

use crate::tls::{Certificates, Policy};

mod accept;
mod answer;
mod body;
mod connection;
mod connection_activity;
pub mod descriptors;
mod health;
mod judge;
mod lifecycle;
mod limits;
pub mod logs;
mod metrics;
mod metrics_port;
mod null;

mod process;
mod refusal;
#[cfg(feature = "opentelemetry")]
pub mod traces;
mod webhook;

pub use answer::Reviewer;
pub use judge::{Judge, SnapshotSource};
pub use lifecycle::Lifecycle;
use limits::Budget;
pub use limits::{BODY_LIMIT, Limits};
pub use metrics_port::{Access, MetricsClients, MetricsPort};
pub use null::NullReviewer;

/// The addresses and limits of the server.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The address of the webhooks (HTTPS).
    pub listen: SocketAddr,
    /// The address of `/livez`, `/readyz` and `/metrics` (plain HTTP).
    pub health: SocketAddr,
    /// The port of `/metrics` over TLS. Without it, the metrics are at `health`.
    pub metrics: Option<MetricsPort>,
    /// What the server accepts in a handshake.
    pub tls: Policy,
    /// The limits on what the server accepts at once.
    pub limits: Limits,
    /// How long the server continues to accept connections after `/readyz` reports a shutdown.
    pub shutdown_delay: Duration,
    /// How long active requests may take after that.
    pub drain_timeout: Duration,
}

/// A server with bound sockets.
pub struct Server {
    webhooks: TcpListener,
    shared: connection::Shared,
    health: SocketAddr,
    /// Stops the thread of the health port.
    stop_health: DropGuard,
    metrics: Option<metrics_port::Served>,
    shutdown_delay: Duration,
    drain_timeout: Duration,
}

impl Server {
    /// Binds both sockets. `registry` holds the caller's metrics; the server adds its own.
    ///
    /// # Errors
    ///
    /// An address cannot be bound, or the crypto provider does not support the TLS settings.
    pub async fn bind(
        settings: Settings,
        certificates: Certificates,
        reviewer: Arc<dyn Reviewer>,
        mut registry: Registry,
        lifecycle: Lifecycle,
    ) -> io::Result<Self> {
        let metrics = Arc::new(metrics::Metrics::register(&mut registry));
        certificates.register(&mut registry);
        Registry::register_collector(&mut registry, Box::new(process::Process));
        let tls = crate::tls::server_config(&certificates, &settings.tls).map_err(io::Error::other)?;
        let budget = Budget::new(settings.limits.bodies);
        let shared = connection::Shared {
            router: webhook::router(&reviewer, &settings.limits, &budget, &metrics),
            tls: Some(TlsAcceptor::from(tls)),
            limits: Arc::new(settings.limits),
            budget,
            lifecycle: lifecycle.clone(),
            metrics,
        };
        let registry = Arc::new(registry);
        let metrics = match settings.metrics {
            Some(port) => {
                // The CA of the webhooks' clients is not that of Prometheus.
                let policy = Policy {
                    clients: None,
                    ..settings.tls
                };
                let tls = crate::tls::server_config(&certificates, &policy).map_err(io::Error::other)?;
                let limits = (*shared.limits).clone();
                Some(metrics_port::serve(port, TlsAcceptor::from(tls), limits, Arc::clone(&registry)).await?)
            }
            None => None,
        };
        let health = health::Health {
            reviewer,
            certificates,
            lifecycle,
            registry,
            shows_metrics: metrics.is_none(),
        };
        let (health, stop_health) = health::start(settings.health, health, &shared)?;
        Ok(Self {
            webhooks: TcpListener::bind(settings.listen)
                .await
                .map_err(|error| health::at(settings.listen, &error))?,
            shared,
            health,
            stop_health,
            metrics,
            shutdown_delay: settings.shutdown_delay,
            drain_timeout: settings.drain_timeout,
        })
    }

    /// The address of the webhooks, with the port that the operating system chose if the settings
    /// left it open.
    ///
    /// # Errors
    ///
    /// The operating system does not report the address.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.webhooks.local_addr()
    }

    /// The address of health and metrics, with the port that the operating system chose if the
    /// settings left it open.
    #[must_use]
    pub fn health_address(&self) -> SocketAddr {
        self.health
    }

    /// The address of the metrics over TLS, if they have a port of their own.
    #[must_use]
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics.as_ref().map(|served| served.address)
    }

    /// Serves until the lifecycle shuts down and all active requests have ended. Returns how many
    /// connections were closed because they did not end within the drain timeout.
    pub async fn run(self) -> usize {
        let lifecycle = self.shared.lifecycle.clone();
        let tasks = TaskTracker::new();
        let accepting = tokio::spawn(accept::run(self.webhooks, self.shared.clone(), tasks.clone()));
        lifecycle.shutting_down().await;
        tracing::info!(delay = ?self.shutdown_delay, "shutting down: /readyz now fails");
        tokio::time::sleep(self.shutdown_delay).await;
        lifecycle.drain();
        // Wait until the socket is closed, so that no connection is accepted after the count.
        let _ignored = accepting.await;
        tasks.close();
        tracing::info!(connections = tasks.len(), "shutting down: draining connections");
        let _timed_out = tokio::time::timeout(self.drain_timeout, tasks.wait()).await;
        // The ports of health and metrics respond until here.
        drop((self.stop_health, self.metrics));
        tasks.len()
    }
}
