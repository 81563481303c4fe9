//! The clocks of this process.
//!
//! This is the only place that reads them, so every other module receives the time as an argument
//! or visibly calls this one. These clocks measure how long an operation took and how long the last
//! success stays valid. The database's clock, not this module, decides which rows are due, leased
//! or expired. Reading cannot fail and takes no lock.

use std::time::{Instant, SystemTime};

/// The current instant of the monotonic clock: comparable within this process only, never stored.
#[expect(clippy::disallowed_methods, reason = "this function is the replacement the ban names")]
#[must_use]
pub fn monotonic() -> Instant {
    Instant::now()
}

/// The host's wall clock. It is used only to show its offset from the database's clock, and for the
/// end times of spans. It decides nothing: it is never compared with a stored time, nor stored.
#[expect(clippy::disallowed_methods, reason = "shown only; the ban is on deciding by it")]
#[must_use]
pub fn wall() -> SystemTime {
    SystemTime::now()
}
