//! The rows of the scheduler, each a module with its preparation, measurement and reference.
//!
//! Each row uses a fresh database and starts its own schedulers.

mod crowd;
mod history;
mod idle;
mod lateness;
mod outage;
mod rate;
mod take_over;
mod wall;

use std::path::Path;

use clap::ValueEnum;

use crate::figures::Figure;
use crate::workspace::Workspace;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Row {
    /// Rows per second of a burst of 10,000 jobs, against pgbench
    Rate,
    /// From the due instant to the last commit, 1,000 and 10,000 jobs
    Wall,
    /// The rate with 10 million finished dispatches and 1 million other jobs
    History,
    /// Lateness at a steady 200 fires per second
    Lateness,
    /// 100,000 jobs of 20 tenants at one instant: time, fairness
    Crowd,
    /// A day's outage of 50,000 minutely jobs: first dispatch, memory, records
    Outage,
    /// A leader that stops, is killed, or freezes
    TakeOver,
    /// Transactions per second of an idle leader with 100,000 jobs
    Idle,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Scale {
    pub(crate) is_quick: bool,
}

impl Scale {
    pub(crate) const fn pick(self, full: usize, quick: usize) -> usize {
        if self.is_quick { quick } else { full }
    }

    pub(crate) const fn repetitions(self) -> usize {
        self.pick(7, 2)
    }
}

pub(crate) struct Bench<'a> {
    pub(crate) workspace: &'a Workspace,
    pub(crate) scale: Scale,
    pub(crate) into: &'a Path,
}

impl Row {
    pub(crate) async fn measure(self, bench: &Bench<'_>) -> anyhow::Result<Vec<Figure>> {
        match self {
            Self::Rate => rate::measure(bench).await,
            Self::Wall => wall::measure(bench).await,
            Self::History => history::measure(bench).await,
            Self::Lateness => lateness::measure(bench).await,
            Self::Crowd => crowd::measure(bench).await,
            Self::Outage => outage::measure(bench).await,
            Self::TakeOver => take_over::measure(bench).await,
            Self::Idle => idle::measure(bench).await,
        }
    }
}
