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
use tokio::time::Instant;

use capstan_core::admission::{Answer, Record};

use super::answer::Reviewer;
use super::body;
use super::limits::{BODY_LIMIT, Budget, Gate, Limits};
use super::metrics::{Metrics, RouteMetrics};
use super::refusal::Refusal;

/// One webhook path.
struct Route {
    path: String,
    metrics: RouteMetrics,
    panics: Arc<Metrics>,
    gate: Gate,
    budget: Budget,
    deadline: Duration,
    reviewer: Arc<dyn Reviewer>,
}

/// A router with all paths of the reviewer.
pub(super) fn router(reviewer: &Arc<dyn Reviewer>, limits: &Limits, metrics: &Arc<Metrics>) -> Router {
    // All paths share one gate and one budget, since they share the processors and the memory.
    let gate = Gate::new(limits.reviews);
    let budget = Budget::new(limits.bodies);
    let routes = reviewer.routes().into_iter().fold(Router::new(), |router, path| {
        let route = Arc::new(Route {
            metrics: metrics.route(&path),
            panics: Arc::clone(metrics),
            gate: gate.clone(),
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
    match judge(&route, request, start).await {
        Ok(answer) => {
            let duration = start.elapsed();
            route.metrics.answered(&answer.record, duration);
            log(&route.path, &answer.record, duration);
            let mut response = Response::new(Body::from(answer.body));
            response
                .headers_mut()
                .insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
            response
        }
        Err(refusal) => {
            let duration = start.elapsed();
            route.metrics.refused(refusal.code().as_u16(), duration);
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

async fn judge(route: &Route, request: Request<Body>, start: Instant) -> Result<Answer, Refusal> {
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
    if Instant::now() >= deadline {
        return Err(Refusal::TooLate);
    }
    // A verdict takes microseconds, less than handing it to another thread, so it is computed here.
    // A panic is a defect of one rule and must not affect other reviews. Nothing that reviews share
    // can be left half-changed, since a reviewer changes nothing.
    match catch_unwind(AssertUnwindSafe(|| route.reviewer.review(&route.path, &body))) {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(no_review)) => Err(Refusal::NoReview(no_review.to_string())),
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
    text.get(..text.floor_char_boundary(253)).unwrap_or_default()
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
