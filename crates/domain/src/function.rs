//! What can be run: task functions.

pub use sched_vocabulary::function::HandlerType;
