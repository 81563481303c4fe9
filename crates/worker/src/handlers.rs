//! Handlers run one attempt each and report how it ended.
//!
//! [`Handlers`] maps a handler type to its [`Handler`]. A handler takes an [`Execution`] and always
//! returns a [`Report`], also for an invalid configuration or a missing program. Handlers do not
//! use the database.
//!
//! The token of an attempt ends it softly (soft signal, grace, kill); dropping its future ends it
//! at once. Both kill everything the attempt started.

mod capture;
mod execution;
mod handler;
pub mod http;
mod live;
mod metrics;
pub mod native;
pub mod process;
mod report;
pub mod scrub;
mod secrets;
mod shortage;
mod storable;

pub use capture::CapturedOutput;
pub use execution::{Execution, RunDetails, Upstream};
pub use handler::{Handler, Handlers};
pub use live::{Live, LiveEvent};
pub use report::{ErrorClass, Outcome, Report, RetryHint};
pub use secrets::{MissingSecret, Secrets};
