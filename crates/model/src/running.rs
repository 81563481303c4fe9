//! How runs are executed: claims and their restrictions, attempts, live output, expiry, dead letters, workers, and the
//! counters of jobs.

pub mod attempts;
pub mod claim_restrictions;
pub mod claims;
pub mod dead_letters;
pub mod executions;
pub mod expiry;
pub mod job_counters;
pub mod live_output;
pub mod upstream;
pub mod workers;
