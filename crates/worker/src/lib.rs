#![doc = include_str!("../README.md")]

pub mod completer;
pub mod config;
mod daemon;
mod executor;
pub mod handlers;
mod heartbeat;
mod live;
mod poller;
mod seen;
mod session;
mod status;

pub use config::Config;
pub use daemon::{StartError, run};

/// Name, version and purpose of this daemon.
pub const PROGRAM: sched_runtime::config::Program = sched_runtime::config::Program::new(
    "sched-worker",
    env!("CARGO_PKG_VERSION"),
    "Claims dispatches, runs them and reports. Start more of them to run more at once.",
)
.defaults(&[("health-port", "9102"), ("database-pool-size", "4")]);
