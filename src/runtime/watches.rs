//! When the API server last sent something on each watch of a client, as a metric.
//!
//! A watch that is stuck ends with no error: its objects only grow old. The API server sends a
//! bookmark on each watch about once a minute, so a watch without a byte for minutes is stuck. This
//! module reads no object and changes no request. It only notes when a part of a response arrives.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures::future::BoxFuture;
use hyper::body::{Body, Frame, SizeHint};
use hyper::{Request, Response, StatusCode, Uri};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use tower::{Layer, Service};

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct WatchLabel {
    resource: String,
}

/// The watches of a client. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Watches {
    contact: Family<WatchLabel, Gauge>,
    /// By the request without its resource version: the resource, and the time of the last contact.
    /// A watch that ended stays here, because its client repeats it.
    known: Arc<Mutex<BTreeMap<String, (String, i64)>>>,
}

impl Watches {
    /// No watches, with their metric in `registry`.
    pub fn register(registry: &mut Registry) -> Self {
        let watches = Self::default();
        registry.register_with_unit(
            "capstan_watch_last_contact_timestamp",
            "When the API server last sent something on the watch of a resource, as a Unix time",
            Unit::Seconds,
            watches.contact.clone(),
        );
        watches
    }

    fn heard(&self, watch: &Watch, now: i64) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(watch.request.clone(), (watch.resource.clone(), now));
        self.show(&watch.resource, &known);
    }

    fn forget(&self, watch: &Watch) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.remove(&watch.request);
        self.show(&watch.resource, &known);
    }

    /// Shows the watch of a resource that has been silent for the longest time.
    fn show(&self, resource: &str, known: &BTreeMap<String, (String, i64)>) {
        let label = WatchLabel {
            resource: resource.to_owned(),
        };
        let of_resource = known.values().filter(|(name, _)| name == resource);
        match of_resource.map(|(_, contact)| *contact).min() {
            Some(oldest) => {
                self.contact.get_or_create(&label).set(oldest);
            }
            None => {
                self.contact.remove(&label);
            }
        }
    }
}

/// A request for a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Watch {
    /// The path and the selectors.
    request: String,
    /// The plural and the group.
    resource: String,
}

impl Watch {
    /// The watch that a request opens; `None` for another request.
    fn of(uri: &Uri) -> Option<Self> {
        let query = uri.query().unwrap_or_default();
        if !query.split('&').any(|pair| matches!(pair, "watch=true" | "watch=1")) {
            return None;
        }
        let selectors = query.split('&').filter(|pair| pair.contains("Selector="));
        let request: Vec<&str> = [uri.path()].into_iter().chain(selectors).collect();
        let mut segments = uri.path().split('/').filter(|segment| !segment.is_empty());
        let group = match segments.next()? {
            "apis" => segments.next()?,
            _ => "",
        };
        let plural = segments.next_back()?;
        Some(Self {
            request: request.join(" "),
            resource: format!("{plural}.{group}").trim_end_matches('.').to_owned(),
        })
    }
}

impl<S> Layer<S> for Watches {
    type Service = Watched<S>;

    fn layer(&self, inner: S) -> Watched<S> {
        Watched {
            inner,
            watches: self.clone(),
        }
    }
}

/// A client whose watches are noted.
#[derive(Clone, Debug)]
pub struct Watched<S> {
    inner: S,
    watches: Watches,
}

impl<S, R, B> Service<Request<R>> for Watched<S>
where
    S: Service<Request<R>, Response = Response<B>>,
    S::Future: Send + 'static,
{
    type Response = Response<WatchBody<B>>;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Self::Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<R>) -> Self::Future {
        let watch = Watch::of(request.uri());
        let watches = self.watches.clone();
        let response = self.inner.call(request);
        Box::pin(async move {
            let response = response.await?;
            let open = watch.and_then(|watch| Open::new(watch, watches, response.status()));
            Ok(response.map(|body| WatchBody { body, open }))
        })
    }
}

/// A watch whose response is being read.
#[derive(Debug)]
struct Open {
    watch: Watch,
    watches: Watches,
    /// Whether the API server ended the response. The client repeats such a watch. A watch that the
    /// client itself gives up is not repeated.
    ended: bool,
}

impl Open {
    fn new(watch: Watch, watches: Watches, status: StatusCode) -> Option<Self> {
        if status == StatusCode::NOT_FOUND {
            // The kind is not served any more.
            watches.forget(&watch);
        }
        if !status.is_success() {
            return None;
        }
        let open = Self {
            watch,
            watches,
            ended: false,
        };
        open.heard();
        Some(open)
    }

    fn heard(&self) {
        self.watches.heard(&self.watch, jiff::Timestamp::now().as_second());
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if !self.ended {
            self.watches.forget(&self.watch);
        }
    }
}

/// The body of a response. That of a watch notes each part that arrives.
#[derive(Debug)]
pub struct WatchBody<B> {
    body: B,
    open: Option<Open>,
}

impl<B: Body<Data = Bytes> + Unpin> Body for WatchBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        if let Some(open) = &mut self.open {
            match &frame {
                Some(Ok(_)) => open.heard(),
                Some(Err(_)) | None => open.ended = true,
            }
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures::StreamExt as _;
    use http_body_util::{BodyExt as _, StreamBody};
    use tower::{ServiceExt as _, service_fn};

    use super::*;

    const MACHINES: &str = "/apis/machine.openshift.io/v1beta1/namespaces/a/machines?watch=true&resourceVersion=7";

    fn shown(watches: &Watches) -> Vec<String> {
        let known = watches.known.lock().unwrap();
        known.values().map(|(resource, _)| resource.clone()).collect()
    }

    #[test]
    fn only_a_watch_is_noted_and_its_resource_version_does_not_distinguish_it() {
        let watch = |uri: &str| Watch::of(&uri.parse().unwrap());
        let machines = watch(MACHINES).unwrap();
        assert_eq!(machines.resource, "machines.machine.openshift.io");
        assert_eq!(watch(&MACHINES.replace("=7", "=8")), Some(machines.clone()));
        assert_ne!(watch(&format!("{MACHINES}&labelSelector=a")), Some(machines));
        assert_eq!(watch("/api/v1/nodes?watch=true").unwrap().resource, "nodes");
        assert_eq!(watch("/api/v1/nodes?limit=1"), None);
        assert_eq!(watch("/version"), None);
    }

    #[test]
    fn the_watch_that_was_silent_for_the_longest_time_counts() {
        let watches = Watches::register(&mut Registry::default());
        let watch = |uri: &str| Watch::of(&uri.parse().unwrap()).unwrap();
        let (one, two) = (watch(MACHINES), watch(&format!("{MACHINES}&fieldSelector=a")));
        let label = WatchLabel {
            resource: one.resource.clone(),
        };
        watches.heard(&one, 10);
        watches.heard(&two, 20);
        assert_eq!(watches.contact.get_or_create(&label).get(), 10);
        watches.heard(&one, 30);
        assert_eq!(watches.contact.get_or_create(&label).get(), 20);
        watches.forget(&two);
        assert_eq!(watches.contact.get_or_create(&label).get(), 30);
    }

    async fn answer(
        watches: &Watches,
        status: u16,
        parts: usize,
    ) -> Response<WatchBody<impl Body<Data = Bytes, Error = Infallible> + Unpin>> {
        let client = watches.layer(service_fn(move |_: Request<()>| async move {
            let parts = futures::stream::iter((0..parts).map(|_| Ok::<_, Infallible>(Frame::data(Bytes::from("{}")))));
            let body = StreamBody::new(parts.boxed());
            Ok::<_, Infallible>(Response::builder().status(status).body(body).unwrap())
        }));
        client.oneshot(Request::get(MACHINES).body(()).unwrap()).await.unwrap()
    }

    #[tokio::test]
    async fn a_watch_that_the_server_ends_stays_known_and_one_that_the_client_ends_does_not() {
        let watches = Watches::register(&mut Registry::default());
        let response = answer(&watches, 200, 2).await;
        assert_eq!(shown(&watches), ["machines.machine.openshift.io"]);
        response.into_body().collect().await.unwrap();
        assert_eq!(shown(&watches).len(), 1, "the client repeats the watch");
        drop(answer(&watches, 503, 0).await);
        assert_eq!(shown(&watches).len(), 1, "the server does not answer it now");
        drop(answer(&watches, 200, 1).await);
        assert!(shown(&watches).is_empty(), "the client gave it up");
        answer(&watches, 200, 1).await.into_body().collect().await.unwrap();
        drop(answer(&watches, 404, 0).await);
        assert!(shown(&watches).is_empty(), "the kind is not served any more");
    }
}
