//! Task functions.

pub mod args_schema;
pub mod built_in;
pub mod handler_config;

pub use sched_vocabulary::function::HandlerType;
