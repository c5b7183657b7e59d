//! Reserves file descriptors. If the webhooks' connections took all of them, the process could neither
//! accept connections on the health port, nor reach the API server, nor read its certificate.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::health;

/// Descriptors for everything but the webhooks: the health port, watches, leader election, files.
const RESERVED: usize = health::CONNECTIONS + 192;

/// Raises the soft limit of file descriptors to the hard limit, and returns how many connections the
/// webhooks may have: `wanted`, or what the limit allows.
#[must_use]
pub fn connections_within_limit(wanted: usize) -> usize {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    let current = if limit.current == limit.maximum || setrlimit(Resource::Nofile, raised).is_ok() {
        limit.maximum
    } else {
        limit.current
    };
    let descriptors = current.map_or(usize::MAX, |current| usize::try_from(current).unwrap_or(usize::MAX));
    let connections = connections(wanted, descriptors);
    if connections < wanted {
        tracing::warn!(
            descriptors,
            connections,
            wanted,
            "the limit of file descriptors must exceed --max-connections by {RESERVED}; accepting fewer connections"
        );
    }
    connections
}

/// Half of a limit that is too low even for the reserve goes to the connections.
fn connections(wanted: usize, descriptors: usize) -> usize {
    let reserved = RESERVED.min(descriptors / 2);
    wanted.min(descriptors.saturating_sub(reserved)).max(1)
}

#[cfg(test)]
mod tests {
    use super::{RESERVED, connections};

    #[test]
    fn n5_connections_leave_descriptors_for_everything_else() {
        assert_eq!(connections(1024, 1 << 20), 1024);
        assert_eq!(connections(1024, 1024), 1024 - RESERVED);
        assert_eq!(connections(1024, 100), 50);
        assert_eq!(connections(1024, 0), 1);
    }
}
