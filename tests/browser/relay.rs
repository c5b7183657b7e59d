//! A relay between the browser and a dashboard, which a test can cut. The server checks the port in
//! `Host`, so the relay replaces its own address by that of the dashboard.

use std::time::Duration;

use capstan_sandbox::control_plane::wait_until;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};

/// The deadline of each wait, also on a loaded machine.
const SOON: Duration = Duration::from_secs(60);

pub struct Relay {
    own: String,
    target: String,
    task: AbortHandle,
}

impl Relay {
    /// Relays to the dashboard with this address.
    pub async fn start(dashboard: &str) -> Self {
        let target = dashboard.split('/').nth(2).unwrap().to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let own = listener.local_addr().unwrap().to_string();
        // Otherwise the length of a request would change.
        assert_eq!(own.len(), target.len());
        let task = tokio::spawn(relay(listener, own.clone(), target.clone())).abort_handle();
        Self { own, target, task }
    }

    /// The address of the page through this relay.
    pub fn address(&self, dashboard: &str) -> String {
        dashboard.replace(&self.target, &self.own)
    }

    /// Closes all connections, and accepts none.
    pub fn cut(&self) {
        self.task.abort();
    }

    /// Accepts connections again.
    pub async fn resume(&mut self) {
        let bound = wait_until("the port to be free", SOON, async || {
            Ok(Some(TcpListener::bind(&self.own).await?))
        });
        let listener = bound.await.unwrap();
        self.task = tokio::spawn(relay(listener, self.own.clone(), self.target.clone())).abort_handle();
    }
}

async fn relay(listener: TcpListener, own: String, target: String) {
    // Aborting this task drops the set, which aborts the connections.
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        connections.spawn(connection(stream, own.clone(), target.clone()));
    }
}

async fn connection(browser: TcpStream, own: String, target: String) -> std::io::Result<()> {
    let server = TcpStream::connect(&target).await?;
    let ((mut from_browser, mut to_browser), (mut from_server, mut to_server)) =
        (browser.into_split(), server.into_split());
    let requests = async move {
        let mut buffer = [0; 16 * 1024];
        loop {
            let length = from_browser.read(&mut buffer).await?;
            if length == 0 {
                return to_server.shutdown().await;
            }
            let text = String::from_utf8_lossy(&buffer[..length]).replace(&own, &target);
            to_server.write_all(text.as_bytes()).await?;
        }
    };
    // As soon as one side closes its connection, both are closed.
    tokio::select! {
        ended = requests => ended,
        ended = copy(&mut from_server, &mut to_browser) => ended.map(drop),
    }
}
