#![doc = include_str!("../README.md")]

mod app;
pub mod config;
mod convert;
pub mod database;
mod error;
mod events;
pub mod http;
mod identity;
mod openapi;
mod routes;
mod self_check;
mod server;
mod state;

pub use config::{Config, SETTINGS};

/// For the generated reference page.
#[doc(hidden)]
pub fn openapi() -> serde_json::Value {
    openapi::document(&routes::table::table())
}

pub use server::{Server, StartError, build, run};

/// Name, version and purpose of this daemon.
pub const PROGRAM: sched_runtime::config::Program = sched_runtime::config::Program::new(
    "sched-api",
    env!("CARGO_PKG_VERSION"),
    "Serves the HTTP API: jobs, runs and events. Any number can run.",
)
// Requests run on separate serving threads; the background tasks share one.
.threads(1);
