#![doc = include_str!("../README.md")]

mod app;
mod by_name;
pub mod config;
mod conflict;
mod cursor;
mod dto;
mod error;
mod events;
mod extract;
mod gather;
mod guard;
mod hints;
mod identity;
mod lanes;
mod mistake;
mod once;
mod openapi;
mod origin;
mod page;
mod peer;
mod permit;
mod places;
mod reply;
mod routes;
mod server;
mod session;
mod state;
mod stream;
mod table;

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
