//! The API as a tower service for a real `kube::Client`. Tests run the production controllers,
//! caches and clients against it.
//!
//! The service adds a lock and a clock, which [`Api`] does not have. A watch is a stream that ends
//! when the server is dropped or when it is cut ([`Server::cut_watches`]).

use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use capstan_core::model::User;
use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use http_body::Frame;
use http_body_util::{BodyExt as _, Full, StreamBody};
use jiff::Timestamp;
use kube::client::Body;
use serde::Serialize;
use serde_json::json;
use tokio::sync::watch;

use super::failure::Failure;
use super::http::{self, Call, Parts};
use super::reads::{WatchEvent, WatchStart};
use super::selector::Selector;
use super::store::Api;

/// An answer: one body, or one line for each event of a watch.
pub type Answer = ::http::Response<StreamBody<BoxStream<'static, Result<Frame<Bytes>, Infallible>>>>;

/// Serves an API to any number of clients.
#[derive(Clone, Debug)]
pub struct Server {
    shared: Arc<Shared>,
}

struct Shared {
    api: Mutex<Api>,
    clock: Box<dyn Fn() -> Timestamp + Send + Sync>,
    /// The current version, and how often the watches were cut.
    reached: watch::Sender<(u64, u64)>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

impl Server {
    /// Serves an API. `clock` gives the time of each request.
    pub fn new(api: Api, clock: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        let reached = watch::Sender::new((api.revision(), 0));
        Self {
            shared: Arc::new(Shared {
                api: Mutex::new(api),
                clock: Box::new(clock),
                reached,
            }),
        }
    }

    /// The API. Requests wait until the guard is dropped.
    pub fn api(&self) -> MutexGuard<'_, Api> {
        // Only a panic in a test can poison the lock.
        self.shared.api.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notifies the watches of changes that were made through [`Server::api`].
    pub fn publish(&self) {
        let revision = self.api().revision();
        self.shared.reached.send_modify(|(reached, _)| *reached = revision);
    }

    /// Ends every open watch, like a broken connection.
    pub fn cut_watches(&self) {
        self.shared.reached.send_modify(|(_, cuts)| *cuts += 1);
    }

    /// A client of a user. It needs a tokio runtime.
    pub fn client(&self, user: &str, groups: &[&str]) -> kube::Client {
        let user = Arc::new(User::named(
            user,
            groups.iter().map(|group| (*group).to_owned()).collect(),
        ));
        let server = self.clone();
        let service = tower::service_fn(move |request: ::http::Request<Body>| {
            let (server, user) = (server.clone(), Arc::clone(&user));
            async move { server.serve(request, &user).await }
        });
        kube::Client::new(service, "default")
    }

    /// Answers one request of a user. A test can put a service that injects faults between a client
    /// and this method.
    ///
    /// # Errors
    /// The body of the request cannot be read.
    pub async fn serve(&self, request: ::http::Request<Body>, user: &User) -> Result<Answer, kube::Error> {
        let (head, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let header = |name: &str| {
            head.headers
                .get(name)
                .and_then(|value| value.to_str().ok())
                .unwrap_or_default()
        };
        let parts = Parts {
            method: head.method.as_str(),
            path: head.uri.path(),
            query: head.uri.query().unwrap_or_default(),
            content_type: header("content-type"),
            user_agent: header("user-agent"),
            body: &body,
        };
        let mut api = self.api();
        let (code, body, warnings) = match http::read(&api, &parts, user) {
            Err(failure) => http::write(&Err(failure)),
            Ok(Call::Discovery(answer)) => (200, answer, Vec::new()),
            Ok(Call::Request(request)) => {
                let (answer, changes) = api.apply(&request, (self.shared.clock)());
                if !changes.is_empty() {
                    let revision = api.revision();
                    self.shared.reached.send_modify(|(reached, _)| *reached = revision);
                }
                http::write(&answer)
            }
            Ok(Call::Watch {
                kind,
                namespace,
                selector,
                start,
                bookmarks,
            }) => {
                drop(api);
                let watching = Watching {
                    shared: Arc::clone(&self.shared),
                    kind,
                    namespace,
                    selector,
                    bookmarks,
                };
                return Ok(::http::Response::new(StreamBody::new(watching.stream(start))));
            }
        };
        drop(api);
        let bytes = Bytes::from(serde_json::to_vec(&body).map_err(kube::Error::SerdeError)?);
        let whole = Full::new(bytes).into_data_stream().map(|data| data.map(Frame::data));
        let mut response = ::http::Response::builder()
            .status(code)
            .header("content-type", "application/json");
        for warning in warnings {
            response = response.header("warning", format!("299 - {}", json!(warning)));
        }
        response
            .body(StreamBody::new(whole.boxed()))
            .map_err(kube::Error::HttpError)
    }
}

struct Watching {
    shared: Arc<Shared>,
    kind: usize,
    namespace: String,
    selector: Selector,
    bookmarks: bool,
}

impl Watching {
    fn events(&self, start: WatchStart) -> Result<(Vec<WatchEvent>, u64), Failure> {
        let api = self.shared.api.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut events, reached) = api.watch(self.kind, &self.namespace, &self.selector, start)?;
        if let WatchStart::After(_) = start
            && events.is_empty()
            && self.bookmarks
        {
            // No event matches, but the version has advanced.
            events.push(api.bookmark(self.kind, false)?);
        }
        Ok((events, reached))
    }

    fn stream(self, start: WatchStart) -> BoxStream<'static, Result<Frame<Bytes>, Infallible>> {
        let receiver = self.shared.reached.subscribe();
        let (_, cuts) = *receiver.borrow();
        let state = Some((self, start, receiver, cuts, true));
        stream::unfold(state, |state| async move {
            let (watching, start, mut receiver, cuts, first) = state?;
            if !first {
                let WatchStart::After(seen) = start else { return None };
                let moved = receiver
                    .wait_for(|(reached, now)| *reached > seen || *now != cuts)
                    .await
                    .map(|state| *state)
                    .ok()?;
                if moved.1 != cuts {
                    return None;
                }
            }
            match watching.events(start) {
                Ok((events, reached)) => {
                    let lines: Vec<u8> = events
                        .iter()
                        .flat_map(|event| line(event.type_, &*event.object))
                        .collect();
                    let state = Some((watching, WatchStart::After(reached), receiver, cuts, false));
                    Some((Ok(Frame::data(Bytes::from(lines))), state))
                }
                Err(failure) => Some((Ok(Frame::data(Bytes::from(line("ERROR", &failure.status())))), None)),
            }
        })
        .boxed()
    }
}

fn line(type_: &str, object: &impl Serialize) -> Vec<u8> {
    let mut line = json!({"type": type_, "object": object}).to_string().into_bytes();
    line.push(b'\n');
    line
}
