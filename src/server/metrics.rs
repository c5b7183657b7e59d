//! The server's metrics, as OpenMetrics text. Label values come from fixed sets only (routes, rule
//! ids, HTTP codes) and never from a request, so the number of series is bounded.

use std::fmt::Debug;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use capstan_core::admission::Record;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Request {
    route: String,
    code: u16,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Decision {
    route: String,
    verdict: &'static str,
    /// The id of the rule; empty for a verdict without a rule.
    rule: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Reason {
    reason: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Build {
    version: &'static str,
}

/// All metrics of the server. Most updates take no lock.
#[derive(Clone, Debug)]
pub(super) struct Metrics {
    build: Family<Build, Gauge>,
    requests: Family<Request, Counter>,
    decisions: Family<Decision, Counter>,
    durations: Family<RouteLabel, Histogram, Buckets>,
    pub(super) in_flight: Gauge,
    pub(super) connections: Gauge,
    panics: Counter,
    handshakes: Family<Reason, Counter>,
    cuts: Family<Reason, Counter>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RouteLabel {
    route: String,
}

/// From a fast review to the deadline: a review takes tens of microseconds, a slow body seconds.
#[derive(Clone, Debug)]
struct Buckets;

impl prometheus_client::metrics::family::MetricConstructor<Histogram> for Buckets {
    fn new_metric(&self) -> Histogram {
        Histogram::new([
            0.000_025, 0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.1, 0.5, 1.0, 5.0,
        ])
    }
}

impl Metrics {
    /// Registers all metrics in `registry`, with the value zero.
    pub(super) fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            build: Family::default(),
            requests: Family::default(),
            decisions: Family::default(),
            durations: Family::new_with_constructor(Buckets),
            in_flight: Gauge::default(),
            connections: Gauge::default(),
            panics: Counter::default(),
            handshakes: Family::default(),
            cuts: Family::default(),
        };
        let build = Build {
            version: env!("CARGO_PKG_VERSION"),
        };
        metrics.build.get_or_create(&build).set(1);
        registry.register("capstan_build_info", "1, with the version", metrics.build.clone());
        registry.register(
            "capstan_requests",
            "Requests to a webhook by HTTP code",
            metrics.requests.clone(),
        );
        registry.register(
            "capstan_decisions",
            "Verdicts by rule; a denial counts once for each rule that denied",
            metrics.decisions.clone(),
        );
        registry.register_with_unit(
            "capstan_review_duration",
            "Time from the end of the request head to the response",
            Unit::Seconds,
            metrics.durations.clone(),
        );
        registry.register(
            "capstan_reviews_in_flight",
            "Reviews without a response",
            metrics.in_flight.clone(),
        );
        registry.register(
            "capstan_connections",
            "Open connections to the webhooks",
            metrics.connections.clone(),
        );
        registry.register(
            "capstan_panics",
            "Reviews that ended in a panic, each of which is a defect",
            metrics.panics.clone(),
        );
        registry.register(
            "capstan_tls_handshakes_failed",
            "TLS handshakes that failed",
            metrics.handshakes.clone(),
        );
        registry.register(
            "capstan_connections_cut",
            "Connections that the server closed: stalled head or response, idle timeout, or eviction",
            metrics.cuts.clone(),
        );
        metrics
    }

    pub(super) fn handshake_failed(&self, reason: &'static str) {
        self.handshakes.get_or_create(&Reason { reason }).inc();
    }

    pub(super) fn cut(&self, reason: &'static str) {
        self.cuts.get_or_create(&Reason { reason }).inc();
    }

    pub(super) fn panicked(&self) {
        self.panics.inc();
    }

    /// The metrics of one route. The caller keeps them, so that a request needs no lookup.
    pub(super) fn route(&self, route: &str) -> RouteMetrics {
        let route = route.to_owned();
        RouteMetrics {
            answered: self.requests.get_or_create_owned(&Request {
                route: route.clone(),
                code: 200,
            }),
            allowed: self.decisions.get_or_create_owned(&Decision {
                route: route.clone(),
                verdict: "allowed",
                rule: String::new(),
            }),
            duration: self.durations.get_or_create_owned(&RouteLabel { route: route.clone() }),
            route,
            all: self.clone(),
        }
    }
}

/// The metrics of one route. The series that most reviews update are looked up in advance.
#[derive(Clone, Debug)]
pub(super) struct RouteMetrics {
    route: String,
    answered: Counter<u64, AtomicU64>,
    allowed: Counter<u64, AtomicU64>,
    duration: Histogram,
    all: Metrics,
}

impl RouteMetrics {
    pub(super) fn answered(&self, record: &Record, duration: Duration) {
        self.answered.inc();
        self.duration.observe(duration.as_secs_f64());
        let count = |verdict: &'static str, rule: &str| {
            let label = Decision {
                route: self.route.clone(),
                verdict,
                rule: rule.to_owned(),
            };
            self.all.decisions.get_or_create(&label).inc();
        };
        record.warned_by.iter().for_each(|rule| count("warned", rule));
        if record.allowed {
            self.allowed.inc();
            return;
        }
        if record.denied_by.is_empty() {
            count("denied", "");
        }
        record.denied_by.iter().for_each(|rule| count("denied", rule));
    }

    pub(super) fn refused(&self, code: u16, duration: Duration) {
        self.all
            .requests
            .get_or_create(&Request {
                route: self.route.clone(),
                code,
            })
            .inc();
        self.duration.observe(duration.as_secs_f64());
    }
}
