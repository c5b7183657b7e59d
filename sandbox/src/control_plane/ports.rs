//! Chooses ports on loopback for servers that start later.
//!
//! A port that is free now can be taken before its server binds it, so a port is reserved. Most
//! systems assign ports from 32768 on to sockets without a port, so all choices are below this
//! number. This module must never return a port that another process of the sandbox chose shortly
//! before.

use std::collections::VecDeque;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use anyhow::{Result, bail};

/// The ports to choose from. The infrastructure provider of Cluster API that keeps machines in
/// memory listens on 19000 and on ports from 20000 on.
const PORTS: Range<u16> = 12_000..19_000;

/// The number of ports that this process reserves. A server binds its port before this number of
/// other ports is chosen.
const RESERVED: usize = 256;

/// The number of candidates. More than a few are used only if the system refuses all sockets.
const CANDIDATES: usize = 1_000;

/// The reservations, oldest first. A UDP socket of the same number keeps other processes from the
/// choice of the port, leaves the TCP port free, and is closed with this process.
static RESERVATIONS: Mutex<VecDeque<UdpSocket>> = Mutex::new(VecDeque::new());

/// A free TCP port on 127.0.0.1, reserved until this process ends or chooses 256 other ports.
///
/// # Errors
/// The system has no free port.
pub fn free_port() -> Result<u16> {
    for _ in 0..CANDIDATES {
        let port = candidate();
        let address = (Ipv4Addr::LOCALHOST, port);
        if let Ok(reservation) = UdpSocket::bind(address)
            && TcpListener::bind(address).is_ok()
        {
            let mut reservations = RESERVATIONS.lock().unwrap_or_else(PoisonError::into_inner);
            reservations.push_back(reservation);
            if reservations.len() > RESERVED {
                reservations.pop_front();
            }
            return Ok(port);
        }
    }
    bail!("no port of {} to {} is free on 127.0.0.1", PORTS.start, PORTS.end - 1)
}

/// Several different free ports.
pub(super) fn free_ports<const N: usize>() -> Result<[u16; N]> {
    let mut ports = [0; N];
    for port in &mut ports {
        *port = free_port()?;
    }
    Ok(ports)
}

/// A port of [`PORTS`]. Each state of the hasher has new random keys.
fn candidate() -> u16 {
    let random = RandomState::new().build_hasher().finish() % u64::from(PORTS.end - PORTS.start);
    PORTS.start + u16::try_from(random).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn chosen_ports_differ_and_are_not_assigned_to_other_sockets() {
        let ports: BTreeSet<u16> = (0..100).map(|_| free_port().unwrap()).collect();
        assert_eq!(ports.len(), 100);
        assert!(ports.iter().all(|port| PORTS.contains(port)));
    }

    #[test]
    fn a_chosen_port_is_reserved_and_can_be_bound() {
        let port = free_port().unwrap();
        assert!(UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).is_err());
        TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
    }
}
