#![doc = include_str!("../README.md")]

pub mod attempt;
pub mod changes;
pub mod clock_jump;
pub mod explain;
pub mod fault_injection;
pub mod function;
pub mod idempotency;
pub mod identity;
pub mod job;
pub mod lease;
mod name;
pub mod notification;
pub mod retention;
pub mod secret;
pub mod simulation;
pub mod time_expression;
pub mod trace;

pub use attempt::{metric, retry};
pub use function::handler_config::FieldError;
pub use function::{args_schema, built_in, handler_config};
pub use job::{dependency, template};
pub use sched_timetable as timetable;
pub use sched_vocabulary::{UnknownWord, ids, instance, run_state};
