//! Handles one review request: checks its form, reads the body under the limits, asks the
//! [`Reviewer`] for the verdict, and records logs and metrics.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, HttpBody};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, Method, Request, Response, header};
use axum::routing::any;
use tokio::time::{Instant, timeout_at};

use bytes::Bytes;
use capstan_core::admission::{Answer, LiveObjects, Record};
use tracing::field::Empty;

use super::answer::Reviewer;
use super::body::{self, Charged};
use super::limits::{BODY_LIMIT, Budget, Gate, Judges, Limits, Share};
use super::metrics::{Metrics, RouteMetrics};
use super::refusal::Refusal;

/// The length in bytes of a refusal's message, which may quote the request.
const LONGEST_MESSAGE: usize = 1024;

/// One webhook path.
struct Route {
    path: String,
    metrics: RouteMetrics,
    panics: Arc<Metrics>,
    gate: Gate,
    judges: Judges,
    budget: Budget,
    deadline: Duration,
    reviewer: Arc<dyn Reviewer>,
}

/// A router with all paths of the reviewer.
pub(super) fn router(reviewer: &Arc<dyn Reviewer>, limits: &Limits, budget: &Budget, metrics: &Arc<Metrics>) -> Router {
    // All paths share the limits, since they share the processors and the memory.
    let gate = Gate::new(limits.reviews);
    let judges = Judges::new(limits.judges);
    let routes = reviewer.routes().into_iter().fold(Router::new(), |router, path| {
        let route = Arc::new(Route {
            metrics: metrics.route(&path),
            panics: Arc::clone(metrics),
            gate: gate.clone(),
            judges: judges.clone(),
            budget: budget.clone(),
            deadline: limits.deadline,
            reviewer: Arc::clone(reviewer),
            path: path.clone(),
        });
        router.route(&path, any(review).with_state(route))
    });
    routes.fallback(|| async { Refusal::NoSuchRoute.response() })
}

async fn review(State(route): State<Arc<Route>>, request: Request<Body>) -> Response<Body> {
    let start = Instant::now();
    // Nothing enables this span, except the export of traces.
    let span =
        tracing::trace_span!(target: "capstan::traces", "review", route = route.path, code = Empty, allowed = Empty);
    match judge(&route, request, start).await {
        Ok((record, body)) => {
            span.record("allowed", record.allowed);
            let duration = start.elapsed();
            route.metrics.answered(&record, duration);
            log(&route.path, &record, duration);
            let mut response = Response::new(Body::new(body));
            response
                .headers_mut()
                .insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
            response
        }
        Err(refusal) => {
            let duration = start.elapsed();
            route.metrics.refused(refusal.code().as_u16(), duration);
            span.record("code", refusal.code().as_u16());
            tracing::warn!(
                target: "capstan::review",
                route = route.path,
                code = refusal.code().as_u16(),
                // The message is not logged: it may quote the body.
                reason = refusal.reason(),
                duration_us = micros(duration),
                "no verdict"
            );
            refusal.response()
        }
    }
}

/// Reads the body and returns the verdict with the body of the response, at the latest at the
/// deadline.
async fn judge(route: &Arc<Route>, request: Request<Body>, start: Instant) -> Result<(Record, Charged), Refusal> {
    if request.method() != Method::POST {
        return Err(Refusal::Method);
    }
    if !is_json(request.headers()) {
        return Err(Refusal::ContentType);
    }
    if request.body().size_hint().lower() > BODY_LIMIT as u64 {
        return Err(Refusal::TooLarge);
    }
    let Some(_permit) = route.gate.enter() else {
        return Err(Refusal::Busy);
    };
    let _counted = InFlight::enter(&route.panics);
    let deadline = start + route.deadline;
    let mut share = route.budget.share();
    let body = body::read(request.into_body(), BODY_LIMIT, &mut share, deadline).await?;
    // The share is held until the last thread that uses the body ends.
    let body = Arc::new((body, share));
    let mut answer = verdict(route, &body, None, deadline).await?;
    let reads = std::mem::take(&mut answer.live_reads);
    if !reads.is_empty()
        && let Some(reading) = route.reviewer.read(reads)
    {
        let Ok(live) = timeout_at(deadline, reading).await else {
            return Err(Refusal::TooLate);
        };
        answer = verdict(route, &body, Some(live), deadline).await?;
    }
    let body = Charged::new(answer.body, route.budget.share()).ok_or(Refusal::Busy)?;
    Ok((answer.record, body))
}

/// The verdict on a body, with the objects that were read for it.
async fn verdict(
    route: &Arc<Route>,
    body: &Arc<(Bytes, Share)>,
    live: Option<LiveObjects>,
    deadline: Instant,
) -> Result<Answer, Refusal> {
    let Some(judging) = route.judges.acquire(body.0.len(), deadline).await else {
        return Err(Refusal::TooLate);
    };
    // A verdict mostly takes microseconds, but a large object may take longer. It is computed in
    // its own thread, so that it delays neither other reviews nor the response at the deadline. The
    // thread keeps the permit and the share until it ends, because it uses a processor and memory
    // until then.
    let verdict = tokio::task::spawn_blocking({
        let (route, body) = (Arc::clone(route), Arc::clone(body));
        move || {
            let verdict = review_body(&route, &body.0, live);
            if Instant::now() > deadline {
                tracing::warn!(target: "capstan::review", route = route.path, "a verdict took longer than the deadline");
            }
            drop((judging, body));
            verdict
        }
    });
    match timeout_at(deadline, verdict).await {
        Ok(Ok(verdict)) => verdict,
        // The runtime shuts down.
        Ok(Err(_cancelled)) => Err(Refusal::TooLate),
        Err(_elapsed) => Err(Refusal::TooLate),
    }
}

/// Asks the reviewer. A panic is a defect of one rule and must not affect other reviews. Nothing
/// that reviews share can be left half-changed, since a reviewer changes nothing.
fn review_body(route: &Route, body: &[u8], live: Option<LiveObjects>) -> Result<Answer, Refusal> {
    let review = || match live {
        None => route.reviewer.review(&route.path, body),
        Some(live) => route.reviewer.review_with(&route.path, body, live),
    };
    match catch_unwind(AssertUnwindSafe(review)) {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(no_review)) => Err(Refusal::NoReview(
            cut(&no_review.to_string(), LONGEST_MESSAGE).to_owned(),
        )),
        Err(_payload) => {
            route.panics.panicked();
            Err(Refusal::Defect)
        }
    }
}

/// Counts a review in the gauge until it is dropped.
struct InFlight(Arc<Metrics>);

impl InFlight {
    fn enter(metrics: &Arc<Metrics>) -> Self {
        metrics.in_flight.inc();
        Self(Arc::clone(metrics))
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.in_flight.dec();
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let Some(Ok(value)) = headers.get(header::CONTENT_TYPE).map(HeaderValue::to_str) else {
        return false;
    };
    let essence = value.split_once(';').map_or(value, |(essence, _parameters)| essence);
    essence.trim().eq_ignore_ascii_case("application/json")
}

fn log(route: &str, record: &Record, duration: Duration) {
    tracing::info!(
        target: "capstan::review",
        route,
        uid = short(&record.uid),
        operation = short(&record.operation),
        kind = short(&record.kind),
        namespace = short(&record.namespace),
        name = short(&record.name),
        user = short(&record.user),
        dry_run = record.dry_run,
        allowed = record.allowed,
        code = record.code,
        rules = record.denied_by.join(","),
        warnings = record.warned_by.join(","),
        duration_us = micros(duration),
        "review"
    );
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// Limits the length of a value in the log, whatever a client sends as a name.
fn short(text: &str) -> &str {
    cut(text, 253)
}

/// The first bytes of a text, cut between characters.
fn cut(text: &str, longest: usize) -> &str {
    text.get(..text.floor_char_boundary(longest)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{is_json, short};
    use axum::http::{HeaderMap, HeaderValue, header};

    #[test]
    fn the_content_type_is_json_with_or_without_parameters_in_any_case() {
        let of = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_str(value).unwrap());
            is_json(&headers)
        };
        assert!(of("application/json"));
        assert!(of("Application/JSON ; charset=utf-8"));
        assert!(!of("application/jsonp"));
        assert!(!of("text/plain"));
        assert!(!is_json(&HeaderMap::new()));
    }

    #[test]
    fn logged_values_are_cut_between_characters() {
        assert_eq!(short("master-0"), "master-0");
        assert_eq!(short(&"é".repeat(200)).len(), 252);
    }
}
