//! `job-types`: which kinds of schedule accept new jobs.

use clap::{Subcommand, ValueEnum};
use sched_runtime::exit;
use sched_wire::{JobTypeInfo, JobTypeSpec, Page};

use crate::commands::Session;
use crate::failure::CommandResult;
use crate::output::Column;

#[derive(Debug, Subcommand)]
pub(crate) enum JobTypesCommand {
    /// List the kinds of schedule
    List,
    /// Say whether new jobs may be of a kind; those there are go on
    Set {
        /// The kind
        name: String,
        /// Whether they may
        state: Accepts,
    },
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Accepts {
    /// New jobs may be of this kind
    Active,
    /// They may not
    Inactive,
}

const COLUMNS: &[Column<JobTypeInfo>] = &[
    Column::new("NAME", |kind| kind.name.clone()),
    Column::new("ACTIVE", |kind| kind.is_active.to_string()),
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
