//! The clocks of this process, read only here.
//!
//! They measure durations and the validity of the last success. The database's clock decides which
//! rows are due, leased or expired.

use std::time::{Instant, SystemTime};

/// The monotonic clock: comparable within this process only, never stored.
#[expect(clippy::disallowed_methods, reason = "this function is the replacement the ban names")]
#[must_use]
pub fn monotonic() -> Instant {
    Instant::now()
}

/// The host's wall clock, for the display of its offset from the database's clock and for end times
/// of spans. It is neither stored nor compared with a stored time.
#[expect(clippy::disallowed_methods, reason = "shown only; the ban is on deciding by it")]
#[must_use]
pub fn wall() -> SystemTime {
    SystemTime::now()
}
