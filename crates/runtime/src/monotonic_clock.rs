//! The clocks of this process.
//!
//! The one place that reads them, so that every other module is told the time or can be seen asking for it here. It is
//! good for how long something took and for how long we trust the last success; what is due, leased or expired is
//! decided by the database's clock, which this module is not. Reading cannot fail and takes no lock.

use std::time::{Instant, SystemTime};

/// The current instant of the monotonic clock: comparable within this process only, never stored.
#[expect(clippy::disallowed_methods, reason = "this function is the replacement the ban names")]
#[must_use]
pub fn monotonic() -> Instant {
    Instant::now()
}

/// The host's wall clock, for showing people how far it is from the database's and when spans of traces ended. It decides nothing: it is never compared with
/// a stored time, nor stored.
#[expect(clippy::disallowed_methods, reason = "shown only; the ban is on deciding by it")]
#[must_use]
pub fn wall() -> SystemTime {
    SystemTime::now()
}
