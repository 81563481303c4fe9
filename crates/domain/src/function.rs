//! Task functions.

pub use sched_vocabulary::function::HandlerType;
