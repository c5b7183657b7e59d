//! The connection between a process and the API server, and its faults.
//!
//! Requests meet the faults of the simulation, drawn by the same code: [`FaultRates`] and
//! [`RequestFault`]. The faults of watches exist only here, because the simulation has no watches:
//! a line is late, a watch breaks between two lines or inside a line, or its version has expired.

use std::convert::Infallible;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use capstan_core::model::User;
use capstan_sandbox::api::service::{Answer, Server};
use capstan_sandbox::random::Random;
use capstan_sandbox::simulation::FaultRates;
use capstan_sandbox::simulation::faults::{CLIENT_TIMEOUT, Dice, RequestFault, reason};
use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;
use kube::client::Body;
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::judge::Judge;

/// How often faults occur, in thousandths.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rates {
    /// The faults of requests. `stall` must be 0: a test cannot stop a process that runs in its own
    /// runtime.
    pub requests: FaultRates,
    /// The version of a watch has expired, at its beginning and at each line.
    pub expired: u64,
    /// A watch breaks, at each line.
    pub broken: u64,
    /// The longest delay of a line of a watch, in milliseconds.
    pub lag: u64,
}

/// The connection of one process.
#[derive(Clone)]
pub(crate) struct Connection {
    pub server: Server,
    pub judge: Arc<Mutex<Judge>>,
    pub name: String,
    pub rates: Rates,
    /// No fault occurs from this time on.
    pub calm: Instant,
    pub random: Arc<Mutex<Random>>,
    pub faults: Arc<AtomicU64>,
    pub requests: Arc<AtomicU64>,
    /// The process was killed. Its requests do not arrive any more, and it receives no answers.
    pub is_dead: Arc<AtomicBool>,
    /// The bug: every attempt to create a machine uses another name.
    pub random_names: bool,
}

type FaultyBody = StreamBody<BoxStream<'static, io::Result<Frame<Bytes>>>>;

/// The random source of a connection. All connections share it.
struct ConnectionDice<'a>(&'a Connection);

impl Dice for ConnectionDice<'_> {
    fn occurs(&mut self, rate: u64) -> bool {
        self.0.occurs(rate)
    }

    fn between(&mut self, least: i64, most: i64) -> i64 {
        let drawn = self.0.between(least.unsigned_abs(), most.unsigned_abs());
        i64::try_from(drawn).unwrap()
    }

    fn below(&mut self, bound: usize) -> usize {
        let drawn = self.0.random.lock().unwrap().below(bound as u64);
        usize::try_from(drawn).unwrap()
    }
}

/// Waits for a time in milliseconds.
async fn wait(time: i64) {
    sleep(Duration::from_millis(time.unsigned_abs())).await;
}

impl Connection {
    pub(crate) fn client(&self) -> kube::Client {
        let connection = self.clone();
        let service = tower::service_fn(move |request| {
            let connection = connection.clone();
            async move { connection.send(request).await }
        });
        kube::Client::new(service, "default")
    }

    fn between(&self, least: u64, most: u64) -> u64 {
        self.random.lock().unwrap().between(least, most)
    }

    /// Whether a fault of this rate occurs.
    fn occurs(&self, rate: u64) -> bool {
        let occurs = rate > 0 && Instant::now() < self.calm && self.random.lock().unwrap().permille(rate);
        self.faults.fetch_add(u64::from(occurs), Ordering::Relaxed);
        occurs
    }

    async fn send(&self, request: http::Request<Body>) -> Result<http::Response<FaultyBody>, kube::Error> {
        sleep(Duration::from_millis(self.between(1, 30))).await;
        self.check_alive()?;
        self.requests.fetch_add(1, Ordering::Relaxed);
        let request = self.with_random_name(request).await?;
        let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        let is_write = request.method() != http::Method::GET;
        let line = format!("{} {} {}", self.name, request.method(), request.uri().path());
        let fault = self.rates.requests.draw(&mut ConnectionDice(self), is_write);
        let answer = match fault {
            None if is_watch && self.occurs(self.rates.expired) => {
                self.record(&line, "the version has expired");
                return refusal(410);
            }
            None => self.serve(request).await?,
            Some(RequestFault::Slow(time)) => {
                self.record(&line, &format!("takes {} s", time / 1000));
                wait(time).await;
                self.check_alive()?;
                self.serve(request).await?
            }
            Some(fault) => return self.fail(request, line, fault).await,
        };
        if is_write {
            self.record(&line, answer.status().as_str());
        }
        sleep(Duration::from_millis(self.between(1, 30))).await;
        self.check_alive()?;
        let (head, body) = answer.into_parts();
        let body = if is_watch { self.watch(body) } else { unchanged(body) };
        Ok(http::Response::from_parts(head, body))
    }

    /// A request that meets a fault and gets no answer, or a refusal.
    async fn fail(
        &self,
        request: http::Request<Body>,
        line: String,
        fault: RequestFault,
    ) -> Result<http::Response<FaultyBody>, kube::Error> {
        match fault {
            RequestFault::Refused(code) => {
                self.record(&line, &format!("refused with {code}"));
                return refusal(code);
            }
            RequestFault::ReadFailed | RequestFault::Slow(_) => self.record(&line, "the read fails"),
            RequestFault::Dropped => {
                self.record(&line, "never arrives");
                wait(CLIENT_TIMEOUT).await;
            }
            RequestFault::ReplyLost => {
                let code = self.serve(request).await?.status();
                self.record(&line, &format!("{code}, and the answer is lost"));
                wait(CLIENT_TIMEOUT).await;
            }
            RequestFault::Late(time) => {
                self.record(&line, &format!("arrives {} s late", time / 1000));
                let connection = self.clone();
                tokio::spawn(async move {
                    wait(time).await;
                    let code = connection.serve(request).await.map(|answer| answer.status());
                    connection.record(&line, &format!("{code:?}, late"));
                });
                wait(CLIENT_TIMEOUT).await;
            }
            RequestFault::CrashBefore => {
                self.record(&line, "the process is killed before the request");
                self.is_dead.store(true, Ordering::Relaxed);
            }
            RequestFault::CrashAfter => {
                let code = self.serve(request).await?.status();
                self.record(&line, &format!("{code}, and the process is killed"));
                self.is_dead.store(true, Ordering::Relaxed);
            }
        }
        Err(lost())
    }

    /// Serves a request, and checks the invariants.
    async fn serve(&self, request: http::Request<Body>) -> Result<Answer, kube::Error> {
        let user = User {
            name: self.name.clone(),
            ..User::default()
        };
        let path = request.uri().path();
        let is_quiet = path.contains("/leases") || path.ends_with("/events");
        let counts = request.method() != http::Method::GET && !is_quiet && self.name.starts_with("capstan");
        let answer = self.server.serve(request, &user).await?;
        let mut judge = self.judge.lock().unwrap();
        judge.writes += u64::from(counts);
        judge.check(&self.server.api());
        Ok(answer)
    }

    /// Adds a line about a request to the trace. Leases and events are left out.
    fn record(&self, line: &str, end: &str) {
        if !line.contains("/leases") && !line.ends_with("/events") {
            self.judge.lock().unwrap().record(&format!("{line}: {end}"));
        }
    }

    fn check_alive(&self) -> Result<(), kube::Error> {
        if self.is_dead.load(Ordering::Relaxed) {
            return Err(lost());
        }
        Ok(())
    }

    /// The bug of `random_names`.
    async fn with_random_name(&self, request: http::Request<Body>) -> Result<http::Request<Body>, kube::Error> {
        let creates_machine = request.method() == http::Method::POST && request.uri().path().ends_with("/machines");
        if !self.random_names || !creates_machine {
            return Ok(request);
        }
        let (head, body) = request.into_parts();
        let bytes = body.collect().await?.to_bytes();
        let mut object: serde_json::Value = serde_json::from_slice(&bytes).map_err(kube::Error::SerdeError)?;
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let index = name.rsplit_once('-').map_or("0", |(_, index)| index);
        object["metadata"]["name"] = format!("random-{}-{index}", self.between(10_000, 99_999)).into();
        let bytes = serde_json::to_vec(&object).map_err(kube::Error::SerdeError)?;
        Ok(http::Request::from_parts(head, Body::from(bytes)))
    }

    /// A watch whose lines are late, and which breaks or expires between two lines or inside a
    /// line.
    fn watch(&self, lines: StreamBody<BoxStream<'static, Result<Frame<Bytes>, Infallible>>>) -> FaultyBody {
        let state = Some((self.clone(), lines));
        let stream = stream::unfold(state, |state| async move {
            let (connection, mut lines) = state?;
            let Ok(frame) = lines.next().await?;
            if Instant::now() < connection.calm {
                sleep(Duration::from_millis(connection.between(0, connection.rates.lag))).await;
            }
            if connection.is_dead.load(Ordering::Relaxed) {
                return None;
            }
            if connection.occurs(connection.rates.broken) {
                if connection.between(0, 1) == 0 {
                    let line = frame.into_data().unwrap_or_default();
                    return Some((Ok(Frame::data(line.slice(..line.len() / 2))), None));
                }
                return Some((Err(io::ErrorKind::ConnectionReset.into()), None));
            }
            if connection.occurs(connection.rates.expired) {
                let line = json!({"type": "ERROR", "object": status(410)}).to_string() + "\n";
                return Some((Ok(Frame::data(Bytes::from(line))), None));
            }
            Some((Ok(frame), Some((connection, lines))))
        });
        StreamBody::new(stream.boxed())
    }
}

fn unchanged(body: StreamBody<BoxStream<'static, Result<Frame<Bytes>, Infallible>>>) -> FaultyBody {
    let frames = body.map(|frame| frame.map_err(|never| match never {}));
    StreamBody::new(frames.boxed())
}

/// The `Status` of a refusal.
fn status(code: u16) -> serde_json::Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "refused by a fault of the test", "reason": reason(code), "code": code})
}

fn refusal(code: u16) -> Result<http::Response<FaultyBody>, kube::Error> {
    let frame = Ok(Frame::data(Bytes::from(status(code).to_string())));
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
