//! `maintenance`: what an operator asks the leader to do at once.
//!
//! Asked for over the API and done by the leader, which does most of it by itself, only later. What came of it is told by events.

use clap::Subcommand;
use sched_runtime::exit;
use sched_wire::SchedulerInstance;
use serde_json::json;

use super::Session;
use crate::failure::CommandResult;
use crate::output::{neutral, tell};

#[derive(Debug, Subcommand)]
pub(crate) enum MaintenanceCommand {
    /// Have the leader look at the schedules at once, as after a change of tables by hand
    Tick,
    /// Have the leader look at once for attempts whose workers are gone or that should have ended, and end them as lost
    ///
    /// Their dispatches are run again as their retry policies say. The leader finds nearly all of it by itself within seconds; by this
    /// command it also looks for attempts that no worker's claim names, which nothing but a change of tables by hand brings about, and ends
    /// those that are still so after a lease of workers. Nothing that a living worker may still run is touched.
    ResetStuck,
}

pub(super) async fn run(command: MaintenanceCommand, session: &Session) -> CommandResult {
    let (what, told) = match command {
        MaintenanceCommand::Tick => ("tick", "was asked to look at the schedules"),
        MaintenanceCommand::ResetStuck => ("reset-stuck", "was asked to look for lost attempts"),
    };
    let leader: SchedulerInstance = session.api()?.post(&["maintenance", what], None, &json!({})).await?;
    tell(&format!("the leader, {} (process {}), {told}", neutral::line(&leader.hostname), leader.pid));
    Ok(exit::OK)
}
