//! Reads that explain why a run happened, waits or was skipped.

pub mod blockers;
pub mod history;
