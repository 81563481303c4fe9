//! Handlers run one attempt each and report how it ended.
//!
//! [`Handlers`] maps a handler type to its [`Handler`]; each type has its own module. A handler
//! takes an [`Execution`] and always returns a [`Report`]. An invalid configuration, a missing
//! program or a failing disk are reports too, so the caller has one path. `sched_domain` decides
//! what the report means for the run (retry, dead letter), and the completer stores it. Nothing
//! here uses the database.
//!
//! Handlers run concurrently. They share only the launcher's threads, the table of running
//! attempts, idle connections and circuits. The token of an attempt ends it softly (soft signal,
//! grace, kill); dropping its future ends it at once. Both kill everything the attempt started.

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

pub use capture::Captured;
pub use execution::Execution;
pub use handler::{Handler, Handlers};
pub use live::{Live, LiveEvent};
pub use report::{Again, ErrorClass, Outcome, Report};
pub use secrets::{MissingSecret, Secrets};
