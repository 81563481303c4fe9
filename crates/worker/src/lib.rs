#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

pub mod attempt;
mod builder;
mod built_in;
mod claiming;
pub mod completion;
pub mod config;
mod daemon;
pub mod handlers;
mod session;
mod status;
pub mod testing;

pub use crate::attempt::secrets::KeysError;
pub use crate::built_in::{ArchiveTarget, InvalidMailer, Mailer, SystemSettings};
pub use builder::{BuildError, Builder, Worker};
pub use config::Config;
pub use daemon::StartError;
pub use handlers::native::{Ctx, HandlerError, SecretNotNamed};
pub use session::UnfinishedWork;
/// What [`Ctx::cancellation`] gives and [`testing::TestRun::cancelled_by`] takes.
pub use tokio_util::sync::CancellationToken;

/// Name, version and purpose of this daemon.
pub const PROGRAM: sched_runtime::config::Program = sched_runtime::config::Program::new(
    "sched-worker",
    env!("CARGO_PKG_VERSION"),
    "Claims dispatches, runs them and reports. Start more of them to run more at once.",
)
.defaults(&[("health-port", "9102"), ("database-pool-size", "4")]);
