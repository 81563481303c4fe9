//! The metrics that change for each attempt, with their handles. `Prefetch` has one more.
//!
//! The registry is searched once per worker. Create this after the recorder is installed: an
//! earlier handle records nothing.

use metrics::{Gauge, Histogram};

#[derive(Debug, Clone)]
pub(crate) struct Meters {
    pub(crate) dispatch_wait: Histogram,
    pub(crate) execution: Histogram,
    pub(crate) slots_busy: Gauge,
}

impl Meters {
    pub(crate) fn new() -> Self {
        Self {
            dispatch_wait: metrics::histogram!("sched_dispatch_wait_seconds"),
            execution: metrics::histogram!("sched_execution_seconds"),
            slots_busy: metrics::gauge!("sched_slots_busy"),
        }
    }
}
