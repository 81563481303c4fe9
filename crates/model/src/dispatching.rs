//! How runs come into being and wait: the tick, triggers, dependents, retries, the overlap queue, quotas, cancellations.

pub mod arguments;
pub mod cancellations;
pub mod dependents;
pub mod dispatches;
pub mod insert;
pub mod overlap_queue;
pub mod planned;
pub mod quotas;
pub mod retries;
pub mod room;
pub mod tick;
pub mod trigger;
