//! What stands between a process and the API server: requests that never arrive, answers that are
//! lost, refusals, watches that lag, break in the middle of a line, or are told that their version
//! is gone.

use std::convert::Infallible;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use capstan_core::model::User;
use capstan_sandbox::api::service::{Answer, Server};
use capstan_sandbox::random::Random;
use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;
use kube::client::Body;
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::judge::Judge;

/// How often what fails, in thousandths; of watches, for every line.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mix {
    pub refused: u64,
    pub unsent: u64,
    pub unanswered: u64,
    pub late: u64,
    pub unread: u64,
    pub expired: u64,
    pub broken: u64,
    /// The longest time that a line of a watch takes, in milliseconds.
    pub lag: u64,
}

/// The wire of one process.
#[derive(Clone)]
pub(crate) struct Wire {
    pub server: Server,
    pub judge: Arc<Mutex<Judge>>,
    pub name: String,
    pub mix: Mix,
    /// From when on nothing fails.
    pub calm: Instant,
    pub random: Arc<Mutex<Random>>,
    pub faults: Arc<AtomicU64>,
    pub requests: Arc<AtomicU64>,
    /// The process is dead: nothing that it still says is heard.
    pub dead: Arc<AtomicBool>,
    /// Whether new machines get a name of their own at every try.
    pub rolls_names: bool,
}

type Broken = StreamBody<BoxStream<'static, io::Result<Frame<Bytes>>>>;

/// How a request fares.
enum Fate {
    Served,
    Refused(u16, &'static str),
    Unsent,
    Unanswered,
    Late(Duration),
}

impl Wire {
    pub(crate) fn client(&self) -> kube::Client {
        let wire = self.clone();
        let service = tower::service_fn(move |request| {
            let wire = wire.clone();
            async move { wire.send(request).await }
        });
        kube::Client::new(service, "default")
    }

    fn between(&self, least: u64, most: u64) -> u64 {
        self.random.lock().unwrap().between(least, most)
    }

    fn strikes(&self, share: u64) -> bool {
        let strikes = share > 0 && Instant::now() < self.calm && self.random.lock().unwrap().permille(share);
        self.faults.fetch_add(u64::from(strikes), Ordering::Relaxed);
        strikes
    }

    fn fate(&self, write: bool, watch: bool) -> Fate {
        let refusals = [
            (409, "Conflict"),
            (429, "TooManyRequests"),
            (500, "InternalError"),
            (503, "ServiceUnavailable"),
        ];
        if write {
            if self.strikes(self.mix.refused) {
                let at = usize::try_from(self.between(0, 3)).unwrap();
                return Fate::Refused(refusals[at].0, refusals[at].1);
            }
            if self.strikes(self.mix.unsent) {
                return Fate::Unsent;
            }
            if self.strikes(self.mix.unanswered) {
                return Fate::Unanswered;
            }
            if self.strikes(self.mix.late) {
                return Fate::Late(Duration::from_secs(self.between(15, 90)));
            }
        } else if self.strikes(self.mix.unread) {
            return if self.between(0, 1) == 0 {
                Fate::Refused(500, "InternalError")
            } else {
                Fate::Unsent
            };
        } else if watch && self.strikes(self.mix.expired) {
            return Fate::Refused(410, "Expired");
        }
        Fate::Served
    }

    async fn send(&self, request: http::Request<Body>) -> Result<http::Response<Broken>, kube::Error> {
        sleep(Duration::from_millis(self.between(1, 30))).await;
        self.alive()?;
        self.requests.fetch_add(1, Ordering::Relaxed);
        let request = self.renamed(request).await?;
        let watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        let line = format!("{} {} {}", self.name, request.method(), request.uri().path());
        // An election that fails is one of the disturbances; its manager gives up the process
        // otherwise.
        let write = request.method() != http::Method::GET;
        match self.fate(write, watch) {
            Fate::Served => {}
            Fate::Refused(code, reason) => {
                self.tell(&line, &format!("is refused with {code}"));
                return refusal(code, reason);
            }
            Fate::Unsent => {
                self.tell(&line, "never arrives");
                sleep(Duration::from_secs(10)).await;
                return Err(lost());
            }
            Fate::Unanswered => {
                let code = self.serve(request).await?.status();
                self.tell(&line, &format!("{code}, and the answer is lost"));
                sleep(Duration::from_secs(10)).await;
                return Err(lost());
            }
            Fate::Late(delay) => {
                self.tell(&line, "will be late");
                let wire = self.clone();
                tokio::spawn(async move {
                    sleep(delay).await;
                    let code = wire.serve(request).await.map(|answer| answer.status());
                    wire.tell(&line, &format!("{code:?}, late"));
                });
                sleep(Duration::from_secs(10)).await;
                return Err(lost());
            }
        }
        let answer = self.serve(request).await?;
        if write {
            self.tell(&line, answer.status().as_str());
        }
        sleep(Duration::from_millis(self.between(1, 30))).await;
        self.alive()?;
        let (head, body) = answer.into_parts();
        let body = if watch { self.watch(body) } else { whole(body) };
        Ok(http::Response::from_parts(head, body))
    }

    /// Serves a request, and has the outcome judged.
    async fn serve(&self, request: http::Request<Body>) -> Result<Answer, kube::Error> {
        let user = User {
            name: self.name.clone(),
            ..User::default()
        };
        let path = request.uri().path();
        let said = path.contains("/leases") || path.ends_with("/events");
        let write = request.method() != http::Method::GET && !said && self.name.starts_with("capstan");
        let answer = self.server.serve(request, &user).await?;
        let mut judge = self.judge.lock().unwrap();
        judge.writes += u64::from(write);
        judge.look(&self.server.api());
        Ok(answer)
    }

    fn tell(&self, line: &str, end: &str) {
        if !line.contains("/leases") && !line.ends_with("/events") {
            self.judge.lock().unwrap().tell(&format!("{line}: {end}"));
        }
    }

    fn alive(&self) -> Result<(), kube::Error> {
        if self.dead.load(Ordering::Relaxed) {
            return Err(lost());
        }
        Ok(())
    }

    /// The bug of `rolls_names`.
    async fn renamed(&self, request: http::Request<Body>) -> Result<http::Request<Body>, kube::Error> {
        let machine = request.method() == http::Method::POST && request.uri().path().ends_with("/machines");
        if !self.rolls_names || !machine {
            return Ok(request);
        }
        let (head, body) = request.into_parts();
        let bytes = body.collect().await?.to_bytes();
        let mut object: serde_json::Value = serde_json::from_slice(&bytes).map_err(kube::Error::SerdeError)?;
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let index = name.rsplit_once('-').map_or("0", |(_, index)| index);
        object["metadata"]["name"] = format!("rolled-{}-{index}", self.between(10_000, 99_999)).into();
        let bytes = serde_json::to_vec(&object).map_err(kube::Error::SerdeError)?;
        Ok(http::Request::from_parts(head, Body::from(bytes)))
    }

    /// A watch that lags, and that breaks or expires between lines or inside one.
    fn watch(&self, lines: StreamBody<BoxStream<'static, Result<Frame<Bytes>, Infallible>>>) -> Broken {
        let state = Some((self.clone(), lines));
        let stream = stream::unfold(state, |state| async move {
            let (wire, mut lines) = state?;
            let Ok(frame) = lines.next().await?;
            if Instant::now() < wire.calm {
                sleep(Duration::from_millis(wire.between(0, wire.mix.lag))).await;
            }
            if wire.dead.load(Ordering::Relaxed) {
                return None;
            }
            if wire.strikes(wire.mix.broken) {
                if wire.between(0, 1) == 0 {
                    let half = frame.into_data().unwrap_or_default();
                    return Some((Ok(Frame::data(half.slice(..half.len() / 2))), None));
                }
                return Some((Err(io::ErrorKind::ConnectionReset.into()), None));
            }
            if wire.strikes(wire.mix.expired) {
                let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                    "message": "too old resource version", "reason": "Expired", "code": 410});
                let line = json!({"type": "ERROR", "object": status}).to_string() + "\n";
                return Some((Ok(Frame::data(Bytes::from(line))), None));
            }
            Some((Ok(frame), Some((wire, lines))))
        });
        StreamBody::new(stream.boxed())
    }
}

fn whole(body: StreamBody<BoxStream<'static, Result<Frame<Bytes>, Infallible>>>) -> Broken {
    let frames = body.map(|frame| frame.map_err(|never| match never {}));
    StreamBody::new(frames.boxed())
}

fn refusal(code: u16, reason: &str) -> Result<http::Response<Broken>, kube::Error> {
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "made so by the test", "reason": reason, "code": code});
    let frame = Ok(Frame::data(Bytes::from(status.to_string())));
    let mut response = http::Response::builder()
        .status(code)
        .header("content-type", "application/json");
    if code == 429 {
        response = response.header("retry-after", "1");
    }
    let body = StreamBody::new(stream::iter([frame]).boxed());
    response.body(body).map_err(kube::Error::HttpError)
}

fn lost() -> kube::Error {
    kube::Error::Service("the connection broke".into())
}
