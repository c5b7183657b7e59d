//! The HTTPS server that the API server calls: it takes bytes in under limits, asks a [`Reviewer`], and sends bytes out.
//!
//! It decides nothing about objects and never reads one. Whoever can reach the port is taken to be hostile: every read
//! has a limit in time and in bytes, every refusal is an answer, and a panic ends one review.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_util::task::TaskTracker;

use crate::tls::{Certificates, MinVersion};

mod accept;
mod answer;
mod body;
mod connection;
mod health;
mod judge;
mod lifecycle;
mod limits;
pub mod logs;
mod metrics;
mod null;
mod pace;
mod refusal;
mod webhook;

pub use answer::Reviewer;
pub use judge::{Judge, Surroundings};
pub use lifecycle::Lifecycle;
pub use limits::{BODY_LIMIT, Limits};
pub use null::NullReviewer;

/// Where the server listens and how it behaves.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The address of the webhooks (HTTPS).
    pub listen: SocketAddr,
    /// The address of `/livez`, `/readyz` and `/metrics` (plain HTTP).
    pub health: SocketAddr,
    /// The oldest TLS version that is spoken.
    pub min_version: MinVersion,
    /// What it takes on at once.
    pub limits: Limits,
    /// How long it goes on taking everything after it has said that it isn't ready any more.
    pub shutdown_delay: Duration,
    /// How long what runs may take to end after that.
    pub drain_timeout: Duration,
}

/// A server whose sockets are bound.
pub struct Server {
    webhooks: TcpListener,
    health: TcpListener,
    shared: connection::Shared,
    health_router: axum::Router,
    shutdown_delay: Duration,
    drain_timeout: Duration,
}

impl Server {
    /// Binds both sockets. `registry` holds what the caller counts; the server adds its own.
    ///
    /// # Errors
    ///
    /// An address cannot be bound, or the TLS settings don't fit the crypto provider.
    pub async fn bind(
        settings: Settings,
        certificates: Certificates,
        reviewer: Arc<dyn Reviewer>,
        mut registry: Registry,
        lifecycle: Lifecycle,
    ) -> io::Result<Self> {
        let metrics = Arc::new(metrics::Metrics::register(&mut registry));
        certificates.register(&mut registry);
        let tls = crate::tls::server_config(&certificates, settings.min_version).map_err(io::Error::other)?;
        let shared = connection::Shared {
            router: webhook::router(&reviewer, &settings.limits, &metrics),
            tls: Some(TlsAcceptor::from(tls)),
            limits: Arc::new(settings.limits),
            lifecycle: lifecycle.clone(),
            metrics,
        };
        let health = health::Health {
            reviewer,
            certificates,
            lifecycle,
            registry: Arc::new(registry),
        };
        Ok(Self {
            webhooks: TcpListener::bind(settings.listen).await?,
            health: TcpListener::bind(settings.health).await?,
            shared,
            health_router: health::router(health),
            shutdown_delay: settings.shutdown_delay,
            drain_timeout: settings.drain_timeout,
        })
    }

    /// The address that the webhooks got, with the port if the settings left it open.
    ///
    /// # Errors
    ///
    /// The operating system does not say.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.webhooks.local_addr()
    }

    /// The address of health and metrics.
    ///
    /// # Errors
    ///
    /// The operating system does not say.
    pub fn health_address(&self) -> io::Result<SocketAddr> {
        self.health.local_addr()
    }

    /// Serves until the lifecycle leaves and everything that ran has ended. Returns how many connections had to be cut
    /// because they did not end in time.
    pub async fn run(self) -> usize {
        let lifecycle = self.shared.lifecycle.clone();
        let tasks = TaskTracker::new();
        let accepting = tokio::spawn(accept::run(self.webhooks, self.shared.clone(), tasks.clone()));
        // Health goes on to answer until the very end, so its connections aren't waited for and it never drains. Its
        // limits are those of the webhooks, with fewer connections.
        let limits = Limits {
            connections: 64,
            ..(*self.shared.limits).clone()
        };
        let health = connection::Shared {
            router: self.health_router,
            tls: None,
            limits: Arc::new(limits),
            lifecycle: Lifecycle::new(),
            metrics: Arc::clone(&self.shared.metrics),
        };
        let health = tokio::spawn(accept::run(self.health, health, TaskTracker::new()));

        lifecycle.leaving().await;
        tracing::info!(delay = ?self.shutdown_delay, "shutting down: not ready any more");
        tokio::time::sleep(self.shutdown_delay).await;
        lifecycle.drain();
        // Until the socket is closed, so that no connection comes in after the count.
        let _ended = accepting.await;
        tasks.close();
        tracing::info!(connections = tasks.len(), "shutting down: finishing what runs");
        let _late = tokio::time::timeout(self.drain_timeout, tasks.wait()).await;
        health.abort();
        tasks.len()
    }
}
