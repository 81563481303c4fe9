//! One module per command group. A failed command has printed no data.

pub(crate) mod definitions;
pub(crate) mod identity;
pub(crate) mod jobs;
pub(crate) mod man;
pub(crate) mod operations;
pub(crate) mod runs;
pub(crate) mod suggestions;

use std::path::PathBuf;

use sched_runtime::exit::ExitError;
use sched_wire::Page;

use crate::api::Api;
use crate::endpoint;
use crate::failure::{failure, usage};
use crate::globals::Globals;
use crate::output::{Output, print_notice};

pub(crate) use crate::commands::definitions::calendars::CalendarsCommand;
pub(crate) use crate::commands::definitions::functions::FunctionsCommand;
pub(crate) use crate::commands::definitions::notifications::NotificationsCommand;
pub(crate) use crate::commands::definitions::projects::ProjectsCommand;
pub(crate) use crate::commands::definitions::queues::QueuesCommand;
pub(crate) use crate::commands::definitions::secrets::SecretsCommand;
pub(crate) use crate::commands::definitions::templates::TemplatesCommand;
pub(crate) use crate::commands::jobs::export::ExportArgs;
pub(crate) use crate::commands::jobs::job_types::JobTypesCommand;
pub(crate) use crate::commands::jobs::schedules::SchedulesCommand;
pub(crate) use crate::commands::operations::audit_events::AuditEventsCommand;
pub(crate) use crate::commands::operations::events::EventsCommand;
pub(crate) use crate::commands::operations::fleet::SchedulersCommand;
pub(crate) use crate::commands::operations::leader::LeaderCommand;
pub(crate) use crate::commands::operations::maintenance::MaintenanceCommand;
pub(crate) use crate::commands::operations::migrate::{MigrateCommand, install, prepare, up, wait_for};
pub(crate) use crate::commands::operations::workers::WorkersCommand;
pub(crate) use crate::commands::runs::dead_letters::DeadLettersCommand;
pub(crate) use identity::{
    ApiKeysCommand, DEV_ENVIRONMENT, MembershipsCommand, TenantsCommand, UsersCommand, ensure_dev_key,
};
pub(crate) use jobs::{JobsCommand, apply};
pub(crate) use runs::trigger::trigger;
pub(crate) use runs::{ATTEMPTS, AttemptsCommand, RunsCommand};

#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) globals: Globals,
    pub(crate) here: PathBuf,
    pub(crate) output: Output,
}

impl Session {
    pub(crate) fn new(globals: Globals) -> Result<Self, ExitError> {
        let here = std::env::current_dir().map_err(failure)?;
        Ok(Self { output: Output::new(globals.output), globals, here })
    }

    fn api(&self) -> Result<Api, ExitError> {
        let place = endpoint::api(&self.globals, &self.here).map_err(usage)?;
        Ok(Api::new(place)?)
    }
}

fn print_more<T>(page: &Page<T>, limit: usize) {
    if page.next_cursor.is_some() {
        print_notice(&format!("more than {limit} exist; raise --limit to see them"));
    }
}
