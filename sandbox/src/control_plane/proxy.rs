//! A proxy between one client and the API server that injects faults. A test can drop a request
//! before it arrives, or drop its answer.
//!
//! It serves plain HTTP on loopback, so the program under test needs only a kubeconfig. It forwards
//! requests as one user and does not read objects.

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

/// One request of the client.
#[derive(Clone, Debug)]
pub struct Call {
    /// `GET`, `POST`, `PATCH`, `PUT`, `DELETE`.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// The number of the write, counted from 1; `None` for a request that is not counted.
    pub write: Option<usize>,
}

/// Decides which requests and answers are dropped.
pub trait Faults: Send + Sync + 'static {
    /// Called before a request is forwarded. If it returns `false`, the request is dropped and the
    /// connection is closed.
    fn before(&self, _call: &Call) -> bool {
        true
    }

    /// Called after the API server has answered. If it returns `false`, the answer is dropped and
    /// the connection is closed.
    fn after(&self, _call: &Call, _code: u16) -> bool {
        true
    }

    /// Whether the request is counted as a write. By default, dry runs and writes of Leases and
    /// Events are not counted.
    fn counts(&self, call: &Call) -> bool {
        let stores = call.method != "GET" && !call.path.contains("dryRun=");
        stores && !call.path.contains("/leases") && !call.path.contains("/events")
    }
}

/// Injects no faults.
#[derive(Clone, Copy, Debug)]
pub struct Calm;

impl Faults for Calm {}

/// A proxy for one user. Dropping it closes all its connections.
#[derive(Debug)]
pub struct Proxy {
    kubeconfig: PathBuf,
    port: u16,
    task: AbortHandle,
}

impl Proxy {
    /// The kubeconfig file with which a program uses the proxy.
    pub fn kubeconfig(&self) -> &PathBuf {
        &self.kubeconfig
    }

    /// A client that uses the proxy.
    ///
    /// # Errors
    /// The kubeconfig file cannot be read.
    pub async fn client(&self) -> Result<kube::Client> {
        let text = std::fs::read_to_string(&self.kubeconfig)?;
        super::kubeconfig::client(&text).await
    }

    /// The port on 127.0.0.1.
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
    /// Starts a proxy that forwards requests as `user`.
    ///
    /// # Errors
    /// No port is free, or the kubeconfig of the user cannot be written.
    pub async fn proxy(&self, user: &str, groups: &[&str], faults: Arc<dyn Faults>) -> Result<Proxy> {
        let upstream = self.client_for(user, groups).await?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .await
            .context("opening the port of a proxy")?;
        let port = listener.local_addr().context("opening the port of a proxy")?.port();
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
    // The head and the body of an answer are two segments. Without this, the second one waits for
    // an acknowledgement, which the client delays by 40 ms. An API server does not wait either.
    let _ignored = stream.set_nodelay(true);
    let service = service_fn(move |request| {
        let shared = Arc::clone(&shared);
        // An error closes the connection without an answer, which is the fault to inject.
        async move { forward(&shared, request).await }
    });
    let connection = hyper::server::conn::http1::Builder::new();
    // A client may close its connection at any time.
    let _result = connection.serve_connection(TokioIo::new(stream), service).await;
}

async fn forward(shared: &Shared, request: Request<Incoming>) -> Result<Response<Body>> {
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
        bail!("{} {} is dropped", call.method, call.path);
    }
    let body = body.collect().await.context("reading a request")?.to_bytes();
    let mut forwarded = Request::builder().method(head.method).uri(head.uri);
    for (name, value) in &head.headers {
        // The other headers concern the connection between the client and the proxy.
        if matches!(name.as_str(), "accept" | "content-type" | "user-agent") {
            forwarded = forwarded.header(name, value);
        }
    }
    let forwarded = forwarded
        .body(Body::from(body.to_vec()))
        .context("forwarding a request")?;
    let response = shared.upstream.send(forwarded).await.context("forwarding a request")?;
    if !shared.faults.after(&call, response.status().as_u16()) {
        bail!("the answer to {} {} is dropped", call.method, call.path);
    }
    Ok(response)
}
