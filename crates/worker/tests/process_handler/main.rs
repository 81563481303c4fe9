//! The `process` handler against real processes.
//!
//! Every test marks its long sleeps with a unique token, so that it finds survivors in the process
//! table and not through the handler. Tests that expect a kill first wait until the process is
//! alive.

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
