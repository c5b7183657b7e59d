//! Stands between one client and the API server, and makes trouble on request: calls that never arrive, answers that
//! never come back, at a write of the test's choice.
//!
//! Plain HTTP on loopback, so that a program under test needs nothing but a kubeconfig. It passes on what it gets, as one
//! user, and reads no objects.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result, bail};
use http::{Request, Response};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kube::client::Body;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};

use super::plane::ControlPlane;

/// One call of the client.
#[derive(Clone, Debug)]
pub struct Call {
    /// `GET`, `POST`, `PATCH`, `PUT`, `DELETE`.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// Its number among the writes, from 1; `None` for a read.
    pub write: Option<usize>,
}

/// Decides what becomes of calls.
pub trait Faults: Send + Sync + 'static {
    /// Before the call is passed on. `false`: it is not, and the client's connection ends.
    fn before(&self, _call: &Call) -> bool {
        true
    }

    /// After the API server has answered. `false`: the client never gets the answer.
    fn after(&self, _call: &Call, _code: u16) -> bool {
        true
    }

    /// Whether the call is one of the writes that are numbered. By default those of machines, sets and operators.
    fn counts(&self, call: &Call) -> bool {
        call.method != "GET" && !call.path.contains("/leases") && !call.path.contains("/events")
    }
}

/// No trouble.
#[derive(Clone, Copy, Debug)]
pub struct Calm;

impl Faults for Calm {}

/// A proxy for one user. It ends, and all its connections, when it is dropped.
#[derive(Debug)]
pub struct Proxy {
    kubeconfig: PathBuf,
    port: u16,
    task: AbortHandle,
}

impl Proxy {
    /// How to reach the API server through it, for a program.
    pub fn kubeconfig(&self) -> &PathBuf {
        &self.kubeconfig
    }

    /// A client that goes through it.
    ///
    /// # Errors
    /// Its kubeconfig cannot be read.
    pub async fn client(&self) -> Result<kube::Client> {
        let text = std::fs::read_to_string(&self.kubeconfig)?;
        super::access::client(&text).await
    }

    /// The port of 127.0.0.1 that it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl ControlPlane {
    /// Starts a proxy that passes calls on as `user`.
    ///
    /// # Errors
    /// No port, or no kubeconfig for the user.
    pub async fn proxy(&self, user: &str, groups: &[&str], faults: Arc<dyn Faults>) -> Result<Proxy> {
        let upstream = self.client_for(user, groups).await?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .await
            .context("binding a proxy")?;
        let port = listener.local_addr().context("binding a proxy")?.port();
        let kubeconfig = serde_json::json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "proxy",
            "clusters": [{"name": "proxy", "cluster": {"server": format!("http://127.0.0.1:{port}")}}],
            "users": [{"name": "proxy", "user": {}}],
            "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "user": "proxy"}}],
        });
        let kubeconfig = self.folder.write(&format!("proxy-{port}"), &kubeconfig.to_string())?;
        let shared = Arc::new(Shared {
            upstream,
            faults,
            writes: AtomicUsize::new(0),
        });
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve(stream, Arc::clone(&shared)));
                while connections.try_join_next().is_some() {}
            }
        });
        Ok(Proxy {
            kubeconfig,
            port,
            task: task.abort_handle(),
        })
    }
}

struct Shared {
    upstream: kube::Client,
    faults: Arc<dyn Faults>,
    writes: AtomicUsize,
}

async fn serve(stream: TcpStream, shared: Arc<Shared>) {
    let service = service_fn(move |request| {
        let shared = Arc::clone(&shared);
        // An error ends the connection without an answer, which is what it is to stand for.
        async move { pass(&shared, request).await }
    });
    let connection = hyper::server::conn::http1::Builder::new();
    // A client that goes away is no news.
    let _ended = connection.serve_connection(TokioIo::new(stream), service).await;
}

async fn pass(shared: &Shared, request: Request<Incoming>) -> Result<Response<Body>> {
    let (head, body) = request.into_parts();
    let mut call = Call {
        method: head.method.to_string(),
        path: head.uri.to_string(),
        write: None,
    };
    if shared.faults.counts(&call) {
        call.write = Some(shared.writes.fetch_add(1, Ordering::SeqCst) + 1);
    }
    if !shared.faults.before(&call) {
        bail!("{} {} is cut off", call.method, call.path);
    }
    let body = body.collect().await.context("reading a request")?.to_bytes();
    let mut forward = Request::builder().method(head.method).uri(head.uri);
    for (name, value) in &head.headers {
        // The rest belongs to the connection to us.
        if matches!(name.as_str(), "accept" | "content-type" | "user-agent") {
            forward = forward.header(name, value);
        }
    }
    let forward = forward.body(Body::from(body.to_vec())).context("passing on")?;
    let response = shared.upstream.send(forward).await.context("passing on")?;
    if !shared.faults.after(&call, response.status().as_u16()) {
        bail!("the answer to {} {} is lost", call.method, call.path);
    }
    Ok(response)
}
