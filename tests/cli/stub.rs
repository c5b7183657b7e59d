//! A server that answers as an API server would, for the commands that only read a cluster.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};

use super::Folder;

/// A server on loopback until the end of the test, and a kubeconfig for it.
pub(super) struct Stub {
    pub(super) folder: Folder,
    pub(super) address: String,
}

/// The answer to a request: the code, and the body.
pub(super) type Answer = (u16, String);

impl Stub {
    /// Answers each request with what `answer` says about its method and its path.
    pub(super) fn new(answer: impl Fn(&str, &str) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let answer = Arc::new(answer);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let answer = Arc::clone(&answer);
                // A client may open a connection that it does not use.
                std::thread::spawn(move || serve(&stream.unwrap(), &*answer));
            }
        });
        Self {
            folder: Folder::new(),
            address,
        }
    }

    /// Writes a kubeconfig with this server and this user.
    pub(super) fn kubeconfig(&self, server: &str, user: &Value) -> PathBuf {
        let config = json!({"apiVersion": "v1", "kind": "Config", "current-context": "a",
            "clusters": [{"name": "a", "cluster": {"server": server}}], "users": [{"name": "a", "user": user}],
            "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}]});
        self.folder.file("kubeconfig", &config.to_string())
    }

    /// A kubeconfig for the server.
    pub(super) fn usual(&self) -> PathBuf {
        self.kubeconfig(&format!("http://{}", self.address), &json!({}))
    }
}

/// Answers one request, and closes the connection.
fn serve(mut stream: &TcpStream, answer: &dyn Fn(&str, &str) -> Answer) {
    let mut reader = BufReader::new(stream);
    let (mut request, mut length) = (String::new(), 0);
    let _ignored = reader.read_line(&mut request);
    loop {
        let mut header = String::new();
        if reader.read_line(&mut header).unwrap_or_default() == 0 || header.trim().is_empty() {
            break;
        }
        if let Some(number) = header.to_ascii_lowercase().strip_prefix("content-length:") {
            length = number.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    let _ignored = reader.read_exact(&mut body);
    let mut words = request.split_whitespace();
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let (code, body) = answer(method, path.split('?').next().unwrap_or_default());
    let head = format!(
        "HTTP/1.1 {code} X\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let _ignored = stream.write_all(format!("{head}{body}").as_bytes());
}

/// The answer to `GET /version`.
pub(super) fn version() -> Answer {
    let info = json!({"major": "1", "minor": "36", "gitVersion": "v1.36.3", "gitCommit": "", "gitTreeState": "",
        "buildDate": "", "goVersion": "", "compiler": "", "platform": ""});
    (200, info.to_string())
}

/// A refusal in the form of the API server.
pub(super) fn status(code: u16, reason: &str, message: &str) -> Answer {
    let status = json!({"apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure", "code": code,
        "reason": reason, "message": message});
    (code, status.to_string())
}

/// The answer for a kind that is not served.
pub(super) fn not_served() -> Answer {
    (404, String::from("404 page not found\n"))
}
