//! Units of simulated time, in milliseconds.

/// Milliseconds of a second.
pub(crate) const SECOND: i64 = 1000;
/// Milliseconds of a minute.
pub(crate) const MINUTE: i64 = 60 * SECOND;
/// Milliseconds of an hour.
pub(crate) const HOUR: i64 = 60 * MINUTE;
