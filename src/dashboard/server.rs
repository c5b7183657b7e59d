//! The server of the live page: on loopback, for one user, without a write to the cluster.
//!
//! The page follows the updates of its source through server-sent events. Every request needs the
//! token of this process, and must come from a page of this server.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use futures::Stream;
use jiff::Timestamp;
use maud::html;
use tokio::sync::watch;

use super::card;
use super::content::Content;
use super::direction::neutral;
use super::guard::{self, Token};
use super::report::{Mood, Report};
use super::{html as page, image};

/// The largest manifest of the form, in bytes. An API server accepts no larger object.
const LARGEST_EDIT: usize = 3 * 1024 * 1024;

/// What the page shows, or the reason why nothing can be shown.
pub type Update = Result<Content, String>;

/// What admission would answer to an edit, and what would follow.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// The object of the edit: its kind and name.
    pub subject: String,
    /// Why the edit is refused; empty if it is allowed.
    pub refusals: Vec<String>,
    /// The warnings.
    pub warnings: Vec<String>,
    /// Whether rules could not be checked, or the kind has none. A warning says why.
    pub incomplete: bool,
    /// The control plane after the edit, with its rollout. `None` if the edit is refused, or if the
    /// object is not a control plane.
    pub after: Option<Report>,
}

/// Where the page takes its content from.
pub trait Source: Send + Sync + 'static {
    /// The cluster or the files, for the head of the page.
    fn name(&self) -> String;

    /// Whether the content follows a cluster. Files are read once.
    fn is_live(&self) -> bool;

    /// The manifest of a stored object as YAML, as a user edits it.
    ///
    /// # Errors
    /// There is no such object, or the cluster cannot be read.
    fn manifest(&self, kind: &str, name: &str) -> anyhow::Result<String>;

    /// Judges a manifest that was entered in the page. It must not write anything.
    ///
    /// # Errors
    /// The text is not a manifest, or the cluster cannot be read.
    fn judge(&self, manifest: &str) -> anyhow::Result<Vec<Verdict>>;
}

/// A server that listens, but does not answer yet.
#[derive(Debug)]
pub struct Dashboard {
    listener: std::net::TcpListener,
    address: SocketAddr,
    token: Token,
}

struct Shared {
    source: Box<dyn Source>,
    updates: watch::Receiver<Arc<Update>>,
    token: Token,
    port: u16,
}

impl Dashboard {
    /// Listens on an address of this machine.
    ///
    /// # Errors
    /// The address is not a loopback address, or it is in use.
    pub fn bind(address: SocketAddr) -> anyhow::Result<Self> {
        let is_local = matches!(address.ip(), IpAddr::V4(ip) if ip.is_loopback()) || address.ip().is_loopback();
        ensure!(
            is_local,
            "--listen must be a loopback address such as 127.0.0.1:0, not {address}"
        );
        let listener = std::net::TcpListener::bind(address).with_context(|| format!("listening on {address}"))?;
        listener.set_nonblocking(true).context("preparing the listener")?;
        Ok(Self {
            address: listener.local_addr().context("reading the address of the listener")?,
            listener,
            token: Token::random()?,
        })
    }

    /// The address of the page, with its secret.
    pub fn url(&self) -> String {
        format!("http://{}/{}/", self.address, self.token.as_str())
    }

    /// Answers requests until the process ends.
    ///
    /// # Errors
    /// The listener fails.
    pub async fn serve(self, source: Box<dyn Source>, updates: watch::Receiver<Arc<Update>>) -> anyhow::Result<()> {
        let shared = Arc::new(Shared {
            source,
            updates,
            token: self.token,
            port: self.address.port(),
        });
        let listener = tokio::net::TcpListener::from_std(self.listener).context("starting the listener")?;
        axum::serve(listener, router(shared)).await.context("serving the page")
    }
}

fn router(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/{token}/", get(whole))
        .route("/{token}/events", get(events))
        .route("/{token}/view.svg", get(svg))
        .route("/{token}/report.html", get(report))
        .route(
            "/{token}/style.css",
            get(async || text("text/css", page::STYLE.to_owned())),
        )
        .route(
            "/{token}/script.js",
            get(async || text("text/javascript", page::SCRIPT.to_owned())),
        )
        .route("/{token}/try", post(judge))
        .route("/{token}/manifest", post(manifest))
        .layer(axum::extract::DefaultBodyLimit::max(LARGEST_EDIT))
        .route_layer(middleware::from_fn_with_state(Arc::clone(&shared), admit))
        .fallback(async || StatusCode::NOT_FOUND)
        .with_state(shared)
}

/// Refuses a request without the token or of another origin. The answer does not say which.
async fn admit(State(shared): State<Arc<Shared>>, Path(token): Path<String>, request: Request, next: Next) -> Response {
    if !shared.token.is(&token) || !guard::is_own(request.headers(), shared.port) {
        return StatusCode::NOT_FOUND.into_response();
    }
    let mut response = next.run(request).await;
    for (name, value) in guard::headers() {
        response.headers_mut().entry(name).or_insert(value);
    }
    response
}

fn text(kind: &str, body: String) -> Response {
    let kind = HeaderValue::from_str(&format!("{kind}; charset=utf-8"));
    let kind = kind.unwrap_or_else(|_| HeaderValue::from_static("text/plain"));
    ([(header::CONTENT_TYPE, kind)], body).into_response()
}

fn current(shared: &Shared) -> Arc<Update> {
    Arc::clone(&shared.updates.borrow())
}

async fn whole(State(shared): State<Arc<Shared>>) -> Response {
    text(
        "text/html",
        page::page(&current(&shared), &shared.source.name(), shared.source.is_live()).into_string(),
    )
}

async fn report(State(shared): State<Arc<Shared>>) -> Response {
    let time = Timestamp::now().to_string();
    with_own_style(text(
        "text/html",
        page::file(&current(&shared), &shared.source.name(), &time),
    ))
}

async fn svg(State(shared): State<Arc<Shared>>) -> Response {
    let update = current(&shared);
    let nothing = Content::default();
    let shown = update.as_ref().as_ref().unwrap_or(&nothing);
    with_own_style(text("image/svg+xml", image::file(shown)))
}

/// A file that has its style in itself, and no script.
fn with_own_style(mut response: Response) -> Response {
    let policy = HeaderValue::from_static("default-src 'none'; style-src 'unsafe-inline'");
    response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
    response
}

/// The live part of the page, now and at each change.
async fn events(State(shared): State<Arc<Shared>>) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let mut updates = shared.updates.clone();
    updates.mark_changed();
    let changes = futures::stream::unfold((updates, String::new()), async |(mut updates, last)| {
        loop {
            updates.changed().await.ok()?;
            let content = page::content(&updates.borrow_and_update()).into_string();
            if content != last {
                let event = Event::default().data(&content);
                return Some((Ok(event), (updates, content)));
            }
        }
    });
    Sse::new(changes).keep_alive(KeepAlive::default())
}

/// The manifest of the object in the body: its kind, a slash, and its name.
async fn manifest(State(shared): State<Arc<Shared>>, body: Bytes) -> Response {
    let read = tokio::task::spawn_blocking(move || {
        let object = std::str::from_utf8(&body).context("the name of the object must be UTF-8")?;
        let (kind, name) = object
            .split_once('/')
            .context("the object must be a kind, a slash, and a name")?;
        shared.source.manifest(kind, name)
    });
    match read.await.map_err(anyhow::Error::from).and_then(std::convert::identity) {
        Ok(manifest) => text("text/plain", manifest),
        Err(error) => (StatusCode::UNPROCESSABLE_ENTITY, format!("{error:#}")).into_response(),
    }
}

async fn judge(State(shared): State<Arc<Shared>>, body: Bytes) -> Response {
    let judged = tokio::task::spawn_blocking(move || {
        let manifest = std::str::from_utf8(&body).context("the manifest must be UTF-8")?;
        shared.source.judge(manifest)
    });
    let verdicts = match judged.await {
        Ok(verdicts) => verdicts,
        Err(error) => Err(anyhow::anyhow!("judging the edit failed: {error}")),
    };
    text("text/html", neutral(answer(&verdicts)).into_string())
}

fn answer(verdicts: &anyhow::Result<Vec<Verdict>>) -> maud::Markup {
    let verdicts = match verdicts {
        Ok(verdicts) => verdicts,
        Err(error) => {
            return html! {
                div class="state alarm" {
                    p class="headline" { (card::mark(Mood::Alarm)) span { "The edit cannot be judged" } }
                    p { bdi { (format!("{error:#}")) } }
                }
            };
        }
    };
    html! { @for (position, verdict) in verdicts.iter().enumerate() { (one_answer(verdict, &format!("forecast-{position}"))) } }
}

fn one_answer(verdict: &Verdict, anchor: &str) -> maud::Markup {
    let has_warnings = !verdict.warnings.is_empty();
    let (mood, answer) = match (verdict.refusals.is_empty(), verdict.incomplete) {
        (true, false) if has_warnings => (Mood::Paused, "Would be allowed, with warnings: "),
        (true, false) => (Mood::Calm, "Would be allowed: "),
        (true, true) => (Mood::Paused, "Not fully checked: "),
        (false, _) => (Mood::Alarm, "Would be refused: "),
    };
    html! {
        section {
            div class={ "state " (card::class_of(mood)) } {
                p class="headline" {
                    @if mood == Mood::Paused { (card::note_mark("⚠", "Warning: ")) } @else { (card::mark(mood)) }
                    span { (answer) bdi { (verdict.subject) } }
                }
                @if !verdict.refusals.is_empty() {
                    ul { @for refusal in &verdict.refusals { li { bdi { (refusal) } } } }
                }
                @if !verdict.warnings.is_empty() {
                    p class="label" { "Warnings" }
                    ul { @for warning in &verdict.warnings { li { bdi { (warning) } } } }
                }
            }
            @if let Some(after) = &verdict.after {
                div class="forecast" {
                    p class="ribbon" { "Forecast" span { "What would follow. Nothing was sent to the cluster." } }
                    (card::control_plane(after, anchor, card::ShownAs::Forecast))
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
