//! Starts the server under test.

use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use capstan::server::{Lifecycle, NullReviewer, Reviewer, Server, Settings};
use capstan::tls::issue::{Authority, DAY, Names};
use capstan::tls::{Certificates, Policy};
use capstan_core::admission::{Answer, NoReview};
use prometheus_client::registry::Registry;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

/// Reviews that wait until they are released, or for a minute.
#[derive(Clone, Default)]
pub struct Blocked(Arc<(Mutex<BlockedState>, Condvar)>);

#[derive(Default)]
struct BlockedState {
    waiting: usize,
    most: usize,
    released: bool,
}

impl Blocked {
    /// How many reviews wait, and how many have waited at the same time.
    pub fn waiting(&self) -> (usize, usize) {
        let state = self.0.0.lock().unwrap();
        (state.waiting, state.most)
    }

    pub fn release(&self) {
        self.0.0.lock().unwrap().released = true;
        self.0.1.notify_all();
    }

    fn wait(&self) {
        let mut state = self.0.0.lock().unwrap();
        state.waiting += 1;
        state.most = state.most.max(state.waiting);
        let minute = Duration::from_secs(60);
        let released = self.0.1.wait_timeout_while(state, minute, |state| !state.released);
        released.unwrap().0.waiting -= 1;
    }
}

/// The size of the response on `/large`.
pub const LARGE: usize = 16 << 20;

/// Works like the null reviewer. It panics on `/panic`, blocks on `/block`, and has a large
/// response on `/large`.
struct Stub {
    null: NullReviewer,
    ready: Result<(), String>,
    blocked: Blocked,
}

impl Reviewer for Stub {
    fn routes(&self) -> Vec<String> {
        ["/review", "/panic", "/block", "/large"].map(str::to_owned).to_vec()
    }

    fn review(&self, route: &str, body: &[u8]) -> Result<Answer, NoReview> {
        assert_ne!(route, "/panic", "the stub panics on this path");
        if route == "/block" {
            self.blocked.wait();
        }
        let mut answer = self.null.review(route, body)?;
        if route == "/large" {
            answer.body.resize(LARGE, b' ');
        }
        Ok(answer)
    }

    fn ready(&self) -> Result<(), String> {
        self.ready.clone()
    }
}

pub struct Running {
    pub address: SocketAddr,
    pub health: SocketAddr,
    pub certificates: Certificates,
    pub lifecycle: Lifecycle,
    /// The CA of the serving certificate, PEM.
    pub trust: String,
    pub ended: JoinHandle<usize>,
    pub blocked: Blocked,
}

pub fn now() -> i64 {
    jiff::Timestamp::now().as_second()
}

pub fn settings() -> Settings {
    let any = "127.0.0.1:0".parse().unwrap();
    Settings {
        listen: any,
        health: any,
        metrics: None,
        tls: Policy::default(),
        limits: capstan::server::Limits::default(),
        shutdown_delay: Duration::ZERO,
        drain_timeout: Duration::from_secs(20),
    }
}

pub fn names() -> Names {
    Names::new(["localhost".to_owned()]).unwrap()
}

/// Starts a server without a certificate.
pub async fn start_bare(settings: Settings, ready: Result<(), String>) -> Running {
    // Another test may have installed the same provider already.
    let _ignored = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let (certificates, lifecycle) = (Certificates::new(), Lifecycle::new());
    let blocked = Blocked::default();
    let reviewer = Arc::new(Stub {
        null: NullReviewer::new(Vec::new()),
        ready,
        blocked: blocked.clone(),
    });
    let server = Server::bind(
        settings,
        certificates.clone(),
        reviewer,
        Registry::default(),
        lifecycle.clone(),
    )
    .await
    .unwrap();
    let (address, health) = (server.address().unwrap(), server.health_address());
    let ended = tokio::spawn(server.run());
    Running {
        address,
        health,
        certificates,
        lifecycle,
        trust: String::new(),
        ended,
        blocked,
    }
}

pub async fn start(settings: Settings) -> Running {
    let mut running = start_bare(settings, Ok(())).await;
    let authority = Authority::issue("test", now(), 10 * DAY).unwrap();
    let leaf = authority.leaf(&names(), now(), DAY).unwrap();
    running
        .certificates
        .serve(leaf.certificate.as_bytes(), leaf.key.as_bytes(), now())
        .unwrap();
    running.trust = authority.certificate;
    running
}

/// Returns the code and the text of a path on the health port.
pub async fn get(address: SocketAddr, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream
        .write_all(format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").as_bytes())
        .await
        .unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

/// Waits until `check` holds. Panics after a long time.
pub async fn eventually<F: AsyncFnMut() -> bool>(what: &str, mut check: F) {
    let give_up = tokio::time::Instant::now() + Duration::from_secs(240);
    while !check().await {
        assert!(
            tokio::time::Instant::now() < give_up,
            "timeout while waiting until {what}"
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
