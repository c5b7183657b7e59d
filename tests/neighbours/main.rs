//! Components of other projects that run beside Capstan: OpenShift's CRDs with their test suites,
//! and the webhooks of its Machine API. Helm judges and installs the chart, OLM installs the
//! bundle, and promtool tests the alerts. The components come from published Go modules, so these
//! tests need Go. The program promtool comes from `PATH` or from Debian's package.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test reports a failure by a panic"
)]

mod alerts;
mod chart;
mod comparison;
mod deviations;
mod machine_webhook;
mod olm;
mod release;
mod suites;
