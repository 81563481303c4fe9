//! The rows of the API, each a module, and their common parts.
//!
//! One API process with default settings except the request rate, no scheduler and no worker. The
//! clients run in this process and share the cores with the API and the database. Their cost is in
//! every figure.

mod endurance;
mod hosted;
mod reads;
mod trigger;

use clap::ValueEnum;

use crate::figures::Figure;
use crate::rows::Bench;

pub(crate) use hosted::program;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Row {
    /// A job, and a page of 50 executions, with 10 million attempts, against the same query alone
    Reads,
    /// Triggers per second of 8 clients, against pgbench inserting the same row
    Trigger,
    /// Memory over ten minutes of load
    Endurance,
}

impl Row {
    pub(crate) async fn measure(self, bench: &Bench<'_>) -> anyhow::Result<Vec<Figure>> {
        match self {
            Self::Reads => reads::measure(bench).await,
            Self::Trigger => trigger::measure(bench).await,
            Self::Endurance => endurance::measure(bench).await,
        }
    }
}
