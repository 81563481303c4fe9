#![doc = include_str!("../README.md")]

pub mod attempt;
mod backend;
#[warn(missing_docs)]
mod builder;
mod built_in;
mod claiming;
pub mod completion;
pub mod config;
mod daemon;
pub mod handlers;
mod meters;
mod session;
mod status;
#[warn(missing_docs)]
pub mod testing;

pub use crate::attempt::secrets::KeysError;
pub use crate::built_in::{ArchiveTarget, InvalidMailer, Mailer, SystemSettings};
pub use builder::{BuildError, Builder, Worker};
pub use config::Config;
pub use daemon::StartError;
pub use handlers::native::{Ctx, HandlerError, SecretNotNamed};
pub use handlers::{RunDetails, Upstream};
pub use session::UnfinishedWork;
/// The type of [`Ctx::cancellation`] and [`testing::TestRun::cancelled_by`].
pub use tokio_util::sync::CancellationToken;

/// Name, version and purpose of this daemon.
pub const PROGRAM: sched_runtime::config::Program = sched_runtime::config::Program::new(
    "sched-worker",
    env!("CARGO_PKG_VERSION"),
    "Claims runs, executes them and stores their results. Start more workers to execute more runs at once.",
)
.defaults(&[("health-port", "9102"), ("database-pool-size", "4")]);
