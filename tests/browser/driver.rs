//! A headless Chromium with its driver, both from Debian. The test finds them on the PATH, or
//! installs them with apt.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use base64::Engine as _;
use bytes::Bytes;
use capstan_sandbox::control_plane::{free_port, wait_until};
use http::Request;
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};

/// The deadline of each wait, also on a loaded machine.
const SOON: Duration = Duration::from_secs(60);
/// The packages of Debian, and their programs.
const PACKAGES: [(&str, &str); 2] = [("chromium", "chromium"), ("chromium-driver", "chromedriver")];

/// A colour scheme that the user prefers.
#[derive(Clone, Copy, Debug)]
pub enum Colors {
    Light,
    Dark,
}

impl Colors {
    /// The background of the page in this scheme.
    pub fn background(self) -> &'static str {
        match self {
            Self::Light => "rgb(245, 246, 248)",
            Self::Dark => "rgb(15, 19, 23)",
        }
    }
}

/// A session of WebDriver. The client is written here: the crates for WebDriver turn on features of
/// serde_json that change the order of keys in all other tests of the workspace.
pub struct Browser {
    port: u16,
    session: String,
    _process: Child,
    _profile: tempfile::TempDir,
}

impl Browser {
    pub async fn start() -> Self {
        let [chromium, chromedriver] = programs().await;
        let port = free_port().unwrap();
        let process = Command::new(chromedriver)
            .arg(format!("--port={port}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let profile = tempfile::tempdir().unwrap();
        let arguments = [
            "--headless=new",
            // The sandbox of Chromium does not start for root, as in a container of a CI. The
            // browser opens only pages of this test.
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--disable-background-networking",
            "--disable-component-update",
            "--no-first-run",
            "--window-size=1280,1000",
            // No name leaves this machine.
            "--host-resolver-rules=MAP rebound.example 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
            &format!("--user-data-dir={}", profile.path().display()),
        ];
        let capabilities = json!({"capabilities": {"alwaysMatch": {
            "browserName": "chrome",
            "goog:loggingPrefs": {"browser": "ALL"},
            "goog:chromeOptions": {"binary": chromium, "args": arguments},
        }}});
        let session = wait_until("the browser to start", SOON, async || {
            let session = send(port, "POST", "/session", &capabilities).await?;
            Ok(session["sessionId"].as_str().map(str::to_owned))
        });
        Self {
            port,
            session: session.await.unwrap(),
            _process: process,
            _profile: profile,
        }
    }

    async fn command(&self, path: &str, body: Value) -> Value {
        let path = format!("/session/{}/{path}", self.session);
        send(self.port, "POST", &path, &body).await.unwrap()
    }

    pub async fn stop(self) {
        let path = format!("/session/{}", self.session);
        send(self.port, "DELETE", &path, &json!(null)).await.unwrap();
    }

    pub async fn open(&self, address: &str) {
        self.command("url", json!({"url": address})).await;
    }

    pub async fn run(&self, script: &str, arguments: Vec<Value>) -> Value {
        let body = json!({"script": script, "args": arguments});
        self.command("execute/sync", body).await
    }

    /// The visible text of an element; empty if there is no such element.
    pub async fn text_of(&self, selector: &str) -> String {
        let script = "return document.querySelector(arguments[0])?.innerText ?? ''";
        let text = self.run(script, vec![json!(selector)]).await;
        text.as_str().unwrap().to_owned()
    }

    /// Waits until the page shows a text.
    pub async fn shows(&self, text: &str) {
        let start = Instant::now();
        loop {
            let shown = self.text_of("html").await;
            if shown.contains(text) {
                return;
            }
            assert!(start.elapsed() < SOON, "the page must show {text:?}: {shown}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits until the page does not show a text any more.
    pub async fn lacks(&self, text: &str) {
        let start = Instant::now();
        while self.text_of("html").await.contains(text) {
            assert!(start.elapsed() < SOON, "the page must not show {text:?} any more");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Gives an element the keyboard focus; for `body`, none has it.
    pub async fn focus(&self, selector: &str) {
        let script = "document.activeElement?.blur(); document.querySelector(arguments[0]).focus()";
        self.run(script, vec![json!(selector)]).await;
    }

    pub async fn has_focus(&self, selector: &str) -> bool {
        let script = "return document.activeElement === document.querySelector(arguments[0])";
        self.run(script, vec![json!(selector)]).await == json!(true)
    }

    /// The name of the element with the keyboard focus, and whether the focus is visible.
    pub async fn focused(&self) -> (String, bool) {
        let script = "const at = document.activeElement; const style = getComputedStyle(at);
            const name = at.getAttribute('href') || at.id || at.getAttribute('aria-label') || at.textContent;
            return [name, style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0]";
        let found = self.run(script, Vec::new()).await;
        (found[0].as_str().unwrap().to_owned(), found[1] == json!(true))
    }

    /// Presses keys, one after the other.
    pub async fn press(&self, keys: &[char]) {
        let press = |key: &char| ["keyDown", "keyUp"].map(|type_| json!({"type": type_, "value": key.to_string()}));
        let steps: Vec<Value> = keys.iter().flat_map(press).collect();
        let keyboard = json!({"type": "key", "id": "keyboard", "actions": steps});
        self.command("actions", json!({"actions": [keyboard]})).await;
    }

    /// The controls that a screen reader cannot name.
    pub async fn nameless(&self) -> Vec<String> {
        self.cdp("Accessibility.enable", json!({})).await;
        let tree = self.cdp("Accessibility.getFullAXTree", json!({})).await;
        let nodes = tree["nodes"].as_array().unwrap().iter();
        let is_focusable = |node: &&Value| {
            let mut properties = node["properties"].as_array().into_iter().flatten();
            properties.any(|property| property["name"] == "focusable" && property["value"]["value"] == json!(true))
        };
        let has_no_name = |node: &&Value| node["name"]["value"].as_str().unwrap_or_default().is_empty();
        let nameless = nodes.filter(is_focusable).filter(has_no_name);
        nameless.map(|node| node["role"]["value"].to_string()).collect()
    }

    /// The addresses of everything that the page loaded.
    pub async fn loaded(&self) -> Vec<String> {
        let script = "return performance.getEntriesByType('resource').map((entry) => entry.name)";
        let loaded = self.run(script, Vec::new()).await;
        serde_json::from_value(loaded).unwrap()
    }

    /// Fills the form with a manifest, and presses its button.
    pub async fn try_edit(&self, manifest: &str) {
        let fill = "document.querySelector('#verdict').textContent = ''; \
                    document.querySelector('#manifest').value = arguments[0];";
        self.run(fill, vec![json!(manifest)]).await;
        self.click("#edit button").await;
    }

    /// Empties the form and its answer.
    pub async fn clear_edit(&self) {
        let empty = "document.querySelector('#verdict').textContent = ''; \
                     document.querySelector('#forecast').textContent = ''; \
                     document.querySelector('#manifest').value = ''; window.scrollTo(0, 0);";
        self.run(empty, Vec::new()).await;
    }

    /// Clicks on an element.
    pub async fn click(&self, selector: &str) {
        let wanted = json!({"using": "css selector", "value": selector});
        let button = self.command("element", wanted).await;
        // An element is an object with one key, which the standard defines.
        let id = button.as_object().unwrap().values().next().unwrap();
        let click = format!("element/{}/click", id.as_str().unwrap());
        self.command(&click, json!({})).await;
    }

    /// Waits until the form has a manifest with a text.
    pub async fn has_manifest(&self, text: &str) {
        let start = Instant::now();
        while !self.manifest().await.contains(text) {
            assert!(start.elapsed() < SOON, "the form must have {text:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// The manifest in the form.
    pub async fn manifest(&self) -> String {
        let script = "return document.querySelector('#manifest').value";
        self.run(script, Vec::new()).await.as_str().unwrap().to_owned()
    }

    async fn cdp(&self, command: &str, parameters: Value) -> Value {
        let body = json!({"cmd": command, "params": parameters});
        self.command("goog/cdp/execute", body).await
    }

    pub async fn set_colors(&self, colors: Colors) {
        let value = match colors {
            Colors::Light => "light",
            Colors::Dark => "dark",
        };
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": value}]});
        self.cdp("Emulation.setEmulatedMedia", features).await;
    }

    /// Sets the width of the screen, as of a phone; `None` removes the setting.
    pub async fn set_width(&self, width: Option<u64>) {
        match width {
            Some(width) => {
                let size = json!({"width": width, "height": 740, "deviceScaleFactor": 2, "mobile": true});
                self.cdp("Emulation.setDeviceMetricsOverride", size).await;
            }
            None => {
                self.cdp("Emulation.clearDeviceMetricsOverride", json!({})).await;
            }
        }
    }

    /// The width of the page, with the part that can be scrolled to.
    pub async fn scroll_width(&self) -> u64 {
        let width = self
            .run("return document.documentElement.scrollWidth", Vec::new())
            .await;
        width.as_u64().unwrap()
    }

    pub async fn background(&self) -> String {
        let script = "return getComputedStyle(document.body).backgroundColor";
        self.run(script, Vec::new()).await.as_str().unwrap().to_owned()
    }

    /// Texts with too little contrast: below 4.5, the limit of WCAG 2 level AA.
    pub async fn unreadable(&self) -> Vec<Value> {
        let found = self.run(include_str!("contrast.js"), Vec::new()).await;
        found.as_array().unwrap().clone()
    }

    /// The font sizes below 14 pixels, with a text of each.
    pub async fn too_small(&self) -> Vec<Value> {
        let script = "const found = new Map();
            for (const element of document.querySelectorAll('body *')) {
                const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
                const size = parseFloat(getComputedStyle(element).fontSize);
                if (own && size < 14) found.set(size, element.textContent.slice(0, 60));
            }
            return [...found]";
        let found = self.run(script, Vec::new()).await;
        found.as_array().unwrap().clone()
    }

    /// How many scripts the page has.
    pub async fn scripts(&self) -> u64 {
        let script = "return document.scripts.length";
        self.run(script, Vec::new()).await.as_u64().unwrap()
    }

    /// Whether a hostile name ran as a script.
    pub async fn is_attacked(&self) -> bool {
        self.run("return window.attacked !== undefined", Vec::new()).await == json!(true)
    }

    /// What the open page can read of a dashboard, for each method of reading.
    pub async fn read_everything(&self, dashboard: &str) -> Value {
        let arguments = vec![json!(dashboard)];
        let body = json!({"script": include_str!("read.js"), "args": arguments});
        self.command("execute/async", body).await
    }

    /// The errors in the console of the browser, apart from refused requests.
    pub async fn errors(&self) -> Vec<String> {
        let log = self.command("se/log", json!({"type": "browser"})).await;
        let entries = log.as_array().unwrap().iter();
        let severe = entries.filter(|entry| entry["level"] == "SEVERE");
        let messages = severe.map(|entry| entry["message"].as_str().unwrap().to_owned());
        messages
            .filter(|message| !message.contains("Failed to load resource"))
            .filter(|message| !message.contains("CORS policy"))
            .collect()
    }

    /// Keeps an image of the whole page in `target/browser`.
    pub async fn screenshot(&self, name: &str) {
        self.keep_image(name, true).await;
    }

    /// Keeps an image of what a user sees first, without scrolling, in `target/browser`.
    pub async fn first_screen(&self, name: &str) {
        self.run("scrollTo(0, 0)", Vec::new()).await;
        self.keep_image(name, false).await;
    }

    /// An image of what is in the window.
    pub async fn window(&self, name: &str) {
        self.keep_image(name, false).await;
    }

    async fn keep_image(&self, name: &str, whole: bool) {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("browser");
        std::fs::create_dir_all(&folder).unwrap();
        let part = json!({"captureBeyondViewport": whole});
        let image = self.cdp("Page.captureScreenshot", part).await;
        let data = image["data"].as_str().unwrap();
        let bytes = base64::engine::general_purpose::STANDARD.decode(data).unwrap();
        std::fs::write(folder.join(format!("{name}.png")), bytes).unwrap();
    }
}

/// The paths of the browser and its driver. Missing ones are installed.
async fn programs() -> [PathBuf; 2] {
    static INSTALLING: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
    let _one = INSTALLING.lock().await;
    let mut failure = String::new();
    if PACKAGES.iter().any(|(_, program)| on_path(program).is_none()) {
        failure = install().await;
    }
    PACKAGES.map(|(package, program)| {
        on_path(program).unwrap_or_else(|| {
            panic!(
                "the test of the page needs the program {program}: install the package {package}, \
                 for example with `apt-get install {package}` on Debian. {failure}"
            )
        })
    })
}

fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut files = std::env::split_paths(&path).map(|folder| folder.join(program));
    files.find(|file| file.is_file())
}

/// Installs the packages, and returns why they are not installed; empty if they are.
async fn install() -> String {
    let mut command = "apt-get update -qq && apt-get install -qq -y --no-install-recommends".to_owned();
    for (package, _) in PACKAGES {
        command = format!("{command} {package}");
    }
    let mut shell = Command::new("sh");
    shell.args(["-c", &command]).env("DEBIAN_FRONTEND", "noninteractive");
    match shell.output().await {
        Ok(output) if output.status.success() => String::new(),
        Ok(output) => format!("{command}: {}", String::from_utf8_lossy(&output.stderr)),
        Err(error) => format!("{command}: {error}"),
    }
}

/// Serves an empty page as another origin, and returns its address.
pub async fn serve_empty_page() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}/", listener.local_addr().unwrap());
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 4096];
            let _read = stream.read(&mut request).await;
            let page = "<!DOCTYPE html><title>other</title><body></body>";
            let length = page.len();
            let answer = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{page}"
            );
            let _written = stream.write_all(answer.as_bytes()).await;
        }
    });
    address
}

/// Sends a command of WebDriver, and returns its value. Each command has its own connection.
async fn send(port: u16, method: &str, path: &str, body: &Value) -> anyhow::Result<Value> {
    let stream = TcpStream::connect(("127.0.0.1", port)).await?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let body = if method == "POST" {
        body.to_string()
    } else {
        String::new()
    };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", format!("127.0.0.1:{port}"))
        .header("content-type", "application/json")
        .body(Full::<Bytes>::from(body))?;
    let (parts, body) = sender.send_request(request).await?.into_parts();
    let answer: Value = serde_json::from_slice(&body.collect().await?.to_bytes())?;
    anyhow::ensure!(parts.status.is_success(), "{method} {path}: {answer}");
    Ok(answer["value"].clone())
}
