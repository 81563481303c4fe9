//! How runs are executed: claims, attempts, live output, expiry, dead letters, workers.

pub mod attempts;
pub mod claims;
pub mod dead_letters;
pub mod executions;
pub mod expiry;
pub mod live_output;
pub mod workers;
