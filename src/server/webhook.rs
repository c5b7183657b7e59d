//! The way of one review through the server: what it must look like, how much of it is taken, who judges it, and what is
//! logged and counted. The verdict itself comes from the [`Reviewer`].

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

/// One path.
struct Route {
    path: String,
    metrics: RouteMetrics,
    panics: Arc<Metrics>,
    gate: Gate,
    budget: Budget,
    deadline: Duration,
    reviewer: Arc<dyn Reviewer>,
}

/// A router with every path of the reviewer.
pub(super) fn router(reviewer: &Arc<dyn Reviewer>, limits: &Limits, metrics: &Arc<Metrics>) -> Router {
    // One gate and one budget for all paths: they share the processors and the memory.
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
                // Not the message: it may quote the body.
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
    let Some(_place) = route.gate.enter() else {
        return Err(Refusal::Busy);
    };
    let _counted = InFlight::enter(&route.panics);
    let deadline = start + route.deadline;
    let mut share = route.budget.share();
    let body = body::read(request.into_body(), BODY_LIMIT, &mut share, deadline).await?;
    if Instant::now() >= deadline {
        return Err(Refusal::TooLate);
    }
    // A verdict takes microseconds, less than handing it to another thread; so it is made right here. A panic is a defect
    // of one rule, and must not take along the reviews of others: nothing that a reviewer shares is left half-changed,
    // since it changes nothing.
    match catch_unwind(AssertUnwindSafe(|| route.reviewer.review(&route.path, &body))) {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(no_review)) => Err(Refusal::NoReview(no_review.to_string())),
        Err(_payload) => {
            route.panics.panicked();
            Err(Refusal::Defect)
        }
    }
}

/// Counts itself while it lives, however it ends.
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

/// The log line is bounded, whatever a caller puts into a name.
fn short(text: &str) -> &str {
    text.get(..text.floor_char_boundary(253)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{is_json, short};
    use axum::http::{HeaderMap, HeaderValue, header};

    #[test]
    fn json_is_json_with_parameters_and_in_capitals_and_nothing_else_is() {
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
    fn what_is_logged_is_cut_between_characters() {
        assert_eq!(short("master-0"), "master-0");
        assert_eq!(short(&"é".repeat(200)).len(), 252);
    }
}
