//! `projects`. `set` writes only if the project is still the version that it read.

use clap::Subcommand;
use sched_runtime::exit;
use sched_wire::{DeleteProjectQuery, PageQuery, Project, ProjectDeleted, ProjectSpec, ReasonRequest};

use crate::commands::{Session, print_more};
use crate::consent::{self, WithoutTerminal};
use crate::failure::CommandResult;
use crate::output::{Column, or_dash, time, yes_or_no};
use crate::values::at_least_one;

#[derive(Debug, Subcommand)]
pub(crate) enum ProjectsCommand {
    /// List projects by name
    List {
        /// Maximum number of projects to list
        #[arg(long, value_name = "COUNT", default_value_t = 200, value_parser = at_least_one)]
        limit: usize,
    },
    /// Show one project
    #[command(visible_alias = "show")]
    Get {
        /// Name of the project
        name: String,
    },
    /// Create or change a project; fields without a flag keep their value
    Set {
        /// Name of the project
        name: String,
        /// Display name; default for a new project: its name
        #[arg(long, value_name = "TEXT")]
        display_name: Option<String>,
        /// Description
        #[arg(long, value_name = "TEXT")]
        description: Option<String>,
    },
    /// Pause a project: its runs are neither dispatched nor claimed, its fires are skipped
    Pause {
        /// Name of the project
        name: String,
        /// Reason, for people
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
    /// Resume a paused project
    Resume {
        /// Name of the project
        name: String,
    },
    /// Delete a project and its secrets
    Delete {
        /// Name of the project
        name: String,
        /// Delete its jobs as well: their history stays, waiting runs are cancelled, running runs
        /// continue
        #[arg(long)]
        with_jobs: bool,
        /// Skip the confirmation
        #[arg(long, short)]
        yes: bool,
    },
}

const COLUMNS: &[Column<Project>] = &[
    Column::new("NAME", |project| project.name.clone()),
    Column::new("PAUSED", |project| yes_or_no(project.is_paused)),
    Column::new("REASON", |project| or_dash(project.pause_reason.clone())),
    Column::new("UPDATED", |project| time(project.updated_at)),
    Column::wide("TITLE", |project| project.display_name.clone()),
    Column::wide("DESCRIPTION", |project| project.description.clone()),
    Column::wide("ID", |project| project.id.to_string()),
];

const DELETED: &[Column<ProjectDeleted>] = &[
    Column::new("Deleted", |deleted| deleted.name.clone()),
    Column::new("Jobs", |deleted| deleted.jobs.to_string()),
    Column::new("Cancelled", |deleted| format!("{} that waited", deleted.cancelled)),
];

pub(crate) async fn run(command: ProjectsCommand, session: &Session) -> CommandResult {
    let api = session.api()?;
    let project: Project = match command {
        ProjectsCommand::List { limit } => {
            let query = |limit, cursor| PageQuery { limit: Some(limit), cursor };
            let projects = api.list(&["projects"], limit, query).await?;
            session.output.page(&projects, COLUMNS, "there are no projects")?;
            print_more(&projects, limit);
            return Ok(exit::OK);
        }
        ProjectsCommand::Delete { name, with_jobs, yes } => {
            if with_jobs && !yes {
                // A missing project needs no confirmation.
                let _exists: Project = api.get(&["projects", &name], &()).await?;
                let what = format!(
                    "project {name} will be deleted with all its jobs, and their waiting runs cancelled"
                );
                consent::confirm(&what, "--yes", WithoutTerminal::Refuse)?;
            }
            let query = DeleteProjectQuery { with_jobs };
            let deleted: ProjectDeleted = api.delete_telling(&["projects", &name], &query).await?;
            session.output.record(&deleted, DELETED)?;
            return Ok(exit::OK);
        }
        ProjectsCommand::Get { name } => {
            let project: Project = api.get(&["projects", &name], &()).await?;
            session.output.whole(&project, COLUMNS)?;
            return Ok(exit::OK);
        }
        ProjectsCommand::Set { name, display_name, description } => {
            let path = ["projects", name.as_str()];
            let now: Option<(Project, _)> = match api.get_tagged(&path).await {
                Ok(found) => Some(found),
                Err(error) if error.is_not_found() => None,
                Err(error) => return Err(error.into()),
            };
            let kept = now.as_ref().map(|(project, _)| project);
            let spec = ProjectSpec {
                display_name: display_name.or_else(|| kept.map(|project| project.display_name.clone())),
                description: description
                    .or_else(|| kept.map(|project| project.description.clone()))
                    .unwrap_or_default(),
            };
            match now {
                Some((_, Some(tag))) => api.replace(&path, &tag, &spec).await?,
                None => api.create(&path, &spec).await?,
                Some((_, None)) => api.put(&path, &(), &spec).await?,
            }
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
