#![doc = include_str!("../README.md")]

pub mod args_schema;
pub mod attempt;
pub mod built_in;
pub mod changes;
pub mod clock_jump;
pub mod dependency;
pub mod explain;
pub mod fault_injection;
pub mod function;
pub mod handler_config;
pub mod idempotency;
pub mod identity;
pub mod job;
pub mod lease;
pub mod metric;
pub mod notification;
pub mod retention;
pub mod retry;
pub mod secret;
pub mod simulation;
pub mod template;
pub mod time_expression;
pub mod trace;

pub use handler_config::FieldError;
pub use sched_timetable as timetable;
pub use sched_vocabulary::{UnknownWord, dispatch, ids, instance};
