//! The rules of the product as pure code.
//!
//! Nothing here reads a clock, an environment variable, a file or a database (zone tables excepted, which
//! `schedule::zone` reads through its library). Instants and randomness are arguments. That is what lets every
//! decision be a table test, and what lets the scheduler, the API and `schedctl` agree on it.

#[macro_use]
mod text_enum;

pub mod args_schema;
pub mod attempt;
pub mod changes;
pub mod clock;
pub mod dependency;
pub mod dispatch;
pub mod explain;
pub mod function;
pub mod handler_config;
pub mod idempotency;
pub mod identity;
pub mod ids;
pub mod instance;
pub mod job;
pub mod lease;
pub mod metric;
pub mod moment;
pub mod notification;
pub mod retention;
pub mod retry;
pub mod schedule;
pub mod secret;
pub mod simulation;
pub mod system;
pub mod template;
pub mod trace;

pub use handler_config::FieldError;

/// A word that is none of those allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{word:?} is not one of {}", allowed.join(", "))]
pub struct UnknownWord {
    /// What was given.
    pub word: String,
    /// What would have been accepted.
    pub allowed: &'static [&'static str],
}
