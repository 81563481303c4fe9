//! The rows of the worker, each a module, and their common parts.
//!
//! Each row uses a fresh database and its own workers. No scheduler runs: dispatches are written by
//! SQL, or triggered as by the API.

mod backlog;
mod costs;
mod cpu;
mod crowd;
mod drain;
mod fleet;
mod floor;
mod history;
mod hosted;
mod http;
mod idle;
mod peers;
mod process;
mod reference;
mod snapshot;
mod start;
mod statements;

use clap::ValueEnum;

use crate::figures::Figure;
use crate::rows::Bench;

pub(crate) use peers::Peers;

pub(crate) fn program() -> anyhow::Result<std::path::PathBuf> {
    hosted::Program::Standard.path()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Row {
    /// 200,000 no-op dispatches by one worker, against pgbench with the same statements
    Drain,
    /// The cost of each part of a dispatch in PostgreSQL
    Costs,
    /// The drain by 2, 4 and 8 worker processes, against one
    Fleet,
    /// From the commit of a trigger to the start of its handler
    Start,
    /// Programs per second in 10 slots, against a bare loop
    Process,
    /// Requests per second in 50 slots, against a drain and a bare loop
    Http,
    /// Transactions per second of 100 idle workers
    Idle,
    /// 10,000 one-second jobs by 1,000 workers, against 10 workers
    Crowd,
    /// The drain with 10 million finished dispatches
    History,
    /// The drain while another session holds an old snapshot
    Snapshot,
}

impl Row {
    pub(crate) async fn measure(
        self,
        bench: &Bench<'_>,
        peers: Option<&Peers>,
    ) -> anyhow::Result<Vec<Figure>> {
        match self {
            Self::Drain => drain::measure(bench, peers).await,
            Self::Costs => costs::measure(bench).await,
            Self::Fleet => fleet::measure(bench).await,
            Self::Start => start::measure(bench, peers).await,
            Self::Process => process::measure(bench).await,
            Self::Http => http::measure(bench).await,
            Self::Idle => idle::measure(bench).await,
            Self::Crowd => crowd::measure(bench).await,
            Self::History => history::measure(bench).await,
            Self::Snapshot => snapshot::measure(bench).await,
        }
    }
}
