//! `job-types`: the kinds of schedule that accept new jobs.

use clap::{Subcommand, ValueEnum};
use sched_runtime::exit;
use sched_wire::{JobTypeInfo, JobTypeSpec, Page};

use crate::commands::Session;
use crate::failure::CommandResult;
use crate::output::{Column, yes_or_no};

#[derive(Debug, Subcommand)]
pub(crate) enum JobTypesCommand {
    /// List the kinds of schedule
    List,
    /// Set whether a kind accepts new jobs; existing jobs continue
    Set {
        /// Kind of schedule
        name: String,
        /// Whether it accepts new jobs
        state: Accepts,
    },
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Accepts {
    /// It accepts new jobs
    Active,
    /// It accepts no new jobs
    Inactive,
}

const COLUMNS: &[Column<JobTypeInfo>] = &[
    Column::new("NAME", |kind| kind.name.clone()),
    Column::new("ACTIVE", |kind| yes_or_no(kind.is_active)),
    Column::new("DESCRIPTION", |kind| kind.description.clone()),
];

pub(crate) async fn run(command: JobTypesCommand, session: &Session) -> CommandResult {
    let api = session.api()?;
    match command {
        JobTypesCommand::List => {
            let page: Page<JobTypeInfo> = api.get(&["job-types"], &()).await?;
            session.output.page(&page, COLUMNS, "there are no kinds of schedule")?;
        }
        JobTypesCommand::Set { name, state } => {
            let spec = JobTypeSpec { is_active: matches!(state, Accepts::Active) };
            let kind: JobTypeInfo = api.put(&["job-types", &name], &(), &spec).await?;
            session.output.record(&kind, COLUMNS)?;
        }
    }
    Ok(exit::OK)
}
