//! The server over real TLS on loopback: what it answers to good, bad and hostile callers, how it leaves, and that no
//! call fails while its certificate changes.
// Tests say what went wrong by panicking.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
// A test has no outside.
#![allow(unreachable_pub)]

mod caller;
mod hostile;
mod leaving;
mod process;
mod rotating;
mod running;
mod self_managed;
mod speaking;
