//! Shared flags: address and key of the API, output, database.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::output::Format;
use crate::values::{duration, within};

/// Flags of all commands.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Globals {
    /// URL of the API; default: that of the running `schedctl dev`, else `http://127.0.0.1:8080`
    #[arg(long, global = true, value_name = "URL", env = "SCHED_API_URL")]
    pub(crate) api_url: Option<String>,
    /// API key, sent as a bearer token; all users of this machine can see the command line, so
    /// prefer --api-key-file
    #[arg(long, global = true, value_name = "KEY", env = "SCHED_API_KEY", hide_env_values = true)]
    pub(crate) api_key: Option<String>,
    /// File with the API key, readable only by its owner; default: the key of the running `schedctl
    /// dev`, only for its API
    #[arg(long, global = true, value_name = "FILE", env = "SCHED_API_KEY_FILE")]
    pub(crate) api_key_file: Option<PathBuf>,
    /// Directory of `schedctl dev`; default: the nearest `.sched` here or in a parent directory
    #[arg(long, global = true, value_name = "DIR", env = "SCHED_DATA_DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Format of the data on standard output
    #[arg(short, long, global = true, value_name = "FORMAT", value_enum, default_value_t = Format::Table)]
    pub(crate) output: Format,
    /// Repeat a read-only command every SECONDS (default 2) until Ctrl-C; without a terminal only
    /// changes are printed
    #[arg(long, global = true, value_name = "SECONDS", num_args = 0..=1, require_equals = true, default_missing_value = "2", value_parser = within(1_u64, 86_400))]
    pub(crate) watch: Option<u64>,
}

#[derive(Debug, Args)]
pub(crate) struct DatabaseArgs {
    /// URL of the database; default: that of the running `schedctl dev`
    #[arg(long, value_name = "URL", env = "DATABASE_URL", hide_env_values = true)]
    pub(crate) database_url: Option<String>,
    /// Maximum wait for an unavailable database
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration)]
    pub(crate) wait: Duration,
}
