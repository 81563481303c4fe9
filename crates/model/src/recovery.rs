//! Recovery of work whose worker died, lost its lease or exceeds its time.

pub mod dead_workers;
pub mod lost_attempts;
pub mod stuck_attempts;
