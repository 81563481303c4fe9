#![doc = include_str!("../README.md")]

pub mod calendars;
pub mod config;
mod daemon;
mod hints;
pub mod leader_scope;
pub mod leadership;
pub mod plan;
mod role;
mod status;
pub mod tasks;

pub use config::Config;
pub use daemon::{StartError, run};

pub const PROGRAM: sched_runtime::config::Program = sched_runtime::config::Program::new(
    "sched-scheduler",
    env!("CARGO_PKG_VERSION"),
    "Turns due fire times into dispatches. Run any number: one leads, the others stand by.",
)
.defaults(&[("health-port", "9101"), ("database-pool-size", "4")]);
