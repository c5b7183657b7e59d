//! Every decision that Capstan makes, as pure functions.
//!
//! An object from the API server is *parsed* once into a type that cannot hold an invalid value;
//! rules judge an edit, `plan` says what to do next, `status` says what to report. The shell
//! (`capstan`) carries bytes in and writes out.
//!
//! Nothing in this crate may read a clock, open a socket or a file, roll a random number or start a
//! task. Time comes in as an argument, names are derived, maps are ordered: the same input gives
//! the same output, everywhere.

pub mod admission;
pub mod api;
pub mod authority;
pub mod cel;
pub mod control_plane;
pub mod conversion;
pub mod cpms;
pub mod kcp;
pub mod model;
pub mod platforms;
pub mod pool;
pub mod schema;
