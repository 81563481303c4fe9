//! The command line of `dev`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::values::{duration, whole, within};

#[derive(Debug, Args)]
pub(crate) struct DevArgs {
    /// Jobs file to apply after the start; may be repeated
    #[arg(long, value_name = "FILE")]
    pub(crate) apply: Vec<PathBuf>,
    /// Wait until every job of the applied files has run, check the results, stop, and exit
    #[arg(long, requires = "apply")]
    pub(crate) once: bool,
    /// Maximum wait of --once
    #[arg(long, value_name = "DURATION", default_value = "120s", value_parser = duration)]
    pub(crate) once_timeout: Duration,
    /// Port of the API on 127.0.0.1; 0 selects a free one
    #[arg(long, value_name = "PORT", env = "API_PORT", default_value_t = 8080, value_parser = whole::<u16>)]
    pub(crate) api_port: u16,
    /// Number of worker processes
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = within(1_u16, 32))]
    pub(crate) workers: u16,
    /// Worker program to run instead of sched-worker, such as one with native handlers
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) worker_program: Option<PathBuf>,
    /// Maximum concurrent attempts of each worker
    #[arg(long, value_name = "COUNT", env = "WORKER_CONCURRENCY", default_value_t = 10, value_parser = within(1_u16, 1000))]
    pub(crate) concurrency: u16,
    /// Log level of the daemons: off, error, warn, info, debug, trace, or target=level (default
    /// warn)
    #[arg(long, value_name = "LEVEL", env = "LOG_LEVEL")]
    pub(crate) log_level: Option<String>,
    /// Same as --log-level info
    #[arg(long, short, conflicts_with = "log_level")]
    pub(crate) verbose: bool,
    /// Remove the data of earlier starts first
    #[arg(long)]
    pub(crate) reset: bool,
    /// Skip the confirmation before data is removed
    #[arg(long, short)]
    pub(crate) yes: bool,
}
