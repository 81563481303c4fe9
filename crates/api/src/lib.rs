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
mod server;
mod state;

pub use config::{Config, SETTINGS};
pub use server::{Server, StartError, build, run};

/// Name, version and purpose of this daemon.
pub const PROGRAM: sched_runtime::config::Program = sched_runtime::config::Program::new(
    "sched-api",
    env!("CARGO_PKG_VERSION"),
    "Takes jobs and tells what becomes of them, over HTTP. Run any number.",
)
// Requests are served by threads of their own; what is beside them is done one thing after the other.
.threads(1);
