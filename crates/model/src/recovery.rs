//! Recovery of work whose worker died, lost its lease or exceeds its time.

pub mod dead_workers;
pub mod lost_attempts;
mod lost_output;
pub mod stuck_attempts;
