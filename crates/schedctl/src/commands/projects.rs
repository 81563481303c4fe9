//! `projects`: listing, showing, setting, pausing and deleting them.

use clap::Subcommand;
use sched_runtime::exit;
use sched_wire::{PageQuery, Project, ProjectSpec, ReasonRequest};

use super::{Session, tell_of_more};
use crate::cli::at_least_one;
use crate::failure::CommandResult;
use crate::output::{Column, or_dash, tell, time};

#[derive(Debug, Subcommand)]
pub(crate) enum ProjectsCommand {
    /// List projects by name
    List {
        /// Most projects to list
        #[arg(long, value_name = "COUNT", default_value_t = 200, value_parser = at_least_one())]
        limit: usize,
    },
    /// Show one project
    Get {
        /// Its name
        name: String,
    },
    /// Make a project, or change one; what is not named is as for a new one
    Set {
        /// Its name
        name: String,
        /// Name shown to people; the name without it
        #[arg(long, value_name = "TEXT")]
        display_name: Option<String>,
        /// What it is for
        #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
        description: String,
    },
    /// Stop dispatching and claiming anything of a project; fire times meanwhile are skipped
    Pause {
        /// Its name
        name: String,
        /// Why, for people
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
    /// End the pause of a project
    Resume {
        /// Its name
        name: String,
    },
    /// Delete a project
    Delete {
        /// Its name
        name: String,
    },
}

const COLUMNS: &[Column<Project>] = &[
    Column::new("NAME", |project| project.name.clone()),
    Column::new("PAUSED", |project| project.is_paused.to_string()),
    Column::new("REASON", |project| or_dash(project.pause_reason.clone())),
    Column::new("UPDATED", |project| time(project.updated_at)),
    Column::wide("TITLE", |project| project.display_name.clone()),
    Column::wide("DESCRIPTION", |project| project.description.clone()),
    Column::wide("ID", |project| project.id.to_string()),
];

pub(super) async fn run(command: ProjectsCommand, session: &Session) -> CommandResult {
    let api = session.api()?;
    let project: Project = match command {
        ProjectsCommand::List { limit } => {
            let query = |limit, cursor| PageQuery { limit: Some(limit), cursor };
            let (projects, more) = api.list(&["projects"], limit, query).await?;
            session.output.list(&projects, COLUMNS, "there are no projects")?;
            tell_of_more(more, limit);
            return Ok(exit::OK);
        }
        ProjectsCommand::Delete { name } => {
            api.delete(&["projects", &name], &()).await?;
            tell(&format!("deleted project {name}"));
            return Ok(exit::OK);
        }
        ProjectsCommand::Get { name } => api.get(&["projects", &name], &()).await?,
        ProjectsCommand::Set { name, display_name, description } => {
            api.put(&["projects", &name], &(), &ProjectSpec { display_name, description }).await?
        }
        ProjectsCommand::Pause { name, reason } => {
            api.post(&["projects", &name, "pause"], None, &ReasonRequest { reason }).await?
        }
        ProjectsCommand::Resume { name } => {
            api.post(&["projects", &name, "resume"], None, &ReasonRequest::default()).await?
        }
    };
    session.output.record(&project, COLUMNS)?;
    Ok(exit::OK)
}
