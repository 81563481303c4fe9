#![doc = include_str!("../README.md")]

mod builder;
pub mod completer;
pub mod config;
mod crowd;
mod daemon;
mod executor;
pub mod handlers;
mod heartbeat;
mod pace;
mod poller;
mod seen;
mod session;
mod status;
mod system;
pub mod testing;

pub use builder::{BuildError, Builder, Worker};
pub use config::Config;
pub use daemon::StartError;
pub use handlers::native::{Ctx, HandlerError, SecretNotNamed};
pub use session::UnkillableWork;
pub use system::{ArchiveTarget, SystemSettings};

/// Name, version and purpose of this daemon.
pub const PROGRAM: sched_runtime::config::Program = sched_runtime::config::Program::new(
    "sched-worker",
    env!("CARGO_PKG_VERSION"),
    "Claims dispatches, runs them and reports. Start more of them to run more at once.",
)
.defaults(&[("health-port", "9102"), ("database-pool-size", "4")]);
