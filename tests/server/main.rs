//! Tests the server over TLS on loopback: its responses to valid, invalid and hostile clients, its
//! shutdown, and that no call fails while its certificate changes.
// A failed test panics.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
// No other crate uses the items of a test.
#![allow(unreachable_pub)]

mod attacks;
mod client;
mod clients;
mod harness;
mod hostile;
mod process;
mod protocols;
mod rotation;
mod self_managed;
mod shutdown;
