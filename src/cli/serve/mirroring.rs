//! What `capstan serve --mirroring-controllers` starts the controllers with.

use prometheus_client::registry::Registry;

use super::Args;
use crate::controllers::{MirroringConfiguration, MirroringMetrics};
use crate::runtime::Metrics;

/// The metrics, listed in `registry`.
pub(super) fn register(registry: &mut Registry) -> MirroringMetrics {
    let runtime = Metrics::register(registry);
    MirroringMetrics::register(registry, runtime)
}

/// The namespaces of both APIs.
pub(super) fn configuration(args: &Args) -> MirroringConfiguration {
    MirroringConfiguration {
        machine_api_namespace: args.scope.namespace.clone(),
        cluster_api_namespace: args.scope.authority.cluster_api_namespace.clone(),
    }
}
