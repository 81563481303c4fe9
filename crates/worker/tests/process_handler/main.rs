//! The `process` handler against real processes.
//!
//! Long sleeps have a unique token, so that tests find survivors in the process table. Tests that
//! expect a kill first wait until the process is alive.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test fails this way; what tests may do, what they share may do")]

mod confined;
mod environment;
mod killed_worker;
mod output;
mod permitted;
mod running;
mod stopping;
mod strays;
mod support;
