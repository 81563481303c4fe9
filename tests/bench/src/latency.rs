//! The rows of all three suites that measure waiting times, as one suite.

use clap::ValueEnum;

use crate::figures::Figure;
use crate::rows::Bench;
use crate::worker::Peers;
use crate::{api, rows, worker};

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Row {
    /// From the due instant to the last commit, 1,000 and 10,000 jobs
    Wall,
    /// Lateness at a steady 200 fires per second
    Lateness,
    /// A leader that stops, is killed, or freezes
    TakeOver,
    /// From the commit of a trigger to the start of its handler
    Start,
    /// A job, and a page of 50 executions, with 10 million attempts, against the same query alone
    Reads,
}

impl Row {
    pub(crate) async fn measure(
        self,
        bench: &Bench<'_>,
        peers: Option<&Peers>,
    ) -> anyhow::Result<Vec<Figure>> {
        match self {
            Self::Wall => rows::Row::Wall.measure(bench).await,
            Self::Lateness => rows::Row::Lateness.measure(bench).await,
            Self::TakeOver => rows::Row::TakeOver.measure(bench).await,
            Self::Start => worker::Row::Start.measure(bench, peers).await,
            Self::Reads => api::Row::Reads.measure(bench).await,
        }
    }
}
