//! The `process` handler against real processes.
//!
//! Every test marks its long sleeps with a token of its own, so that what survives is asked of the process table, not of
//! the handler. Tests that expect something to be killed first wait until it is seen alive.

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
