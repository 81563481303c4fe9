#![doc = include_str!("../README.md")]

mod builder;
mod claiming;
pub mod completer;
pub mod config;
mod crowd;
mod daemon;
mod executor;
mod failures;
pub mod handlers;
mod heartbeat;
mod live;
mod pace;
mod poller;
mod reaper;
mod scrubbing;
mod secrets;
mod seen;
mod session;
mod status;
mod system;
pub mod testing;
mod traces;
mod weights;

pub use builder::{BuildError, Builder, Worker};
pub use config::Config;
pub use daemon::StartError;
pub use handlers::native::{Ctx, HandlerError, SecretNotNamed};
pub use secrets::KeysError;
pub use session::UnfinishedWork;
pub use system::{ArchiveTarget, InvalidMailer, Mailer, SystemSettings};
/// What [`Ctx::cancellation`] gives and [`testing::TestRun::cancelled_by`] takes.
pub use tokio_util::sync::CancellationToken;

/// Name, version and purpose of this daemon.
pub const PROGRAM: sched_runtime::config::Program = sched_runtime::config::Program::new(
    "sched-worker",
    env!("CARGO_PKG_VERSION"),
    "Claims dispatches, runs them and reports. Start more of them to run more at once.",
)
.defaults(&[("health-port", "9102"), ("database-pool-size", "4")]);
