//! The monotonic clock of the machine, which all processes share.
//!
//! A worker stamps the start of a handler with it, and the benchmark the commit of the trigger.

use nix::time::{ClockId, clock_gettime};

/// Nanoseconds since an instant common to all processes.
pub(crate) fn now() -> i64 {
    // Fails only for unknown clocks.
    clock_gettime(ClockId::CLOCK_MONOTONIC)
        .map_or(0, |at| at.tv_sec().saturating_mul(1_000_000_000).saturating_add(at.tv_nsec()))
}
