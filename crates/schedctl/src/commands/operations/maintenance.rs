//! `maintenance`: what an operator asks the leader to do at once.
//!
//! Asked for over the API and done by the leader, which does most of it by itself, only later. What came of it is told by events.

use clap::Subcommand;
use sched_runtime::exit;
use sched_wire::SchedulerInstance;
use serde_json::json;

use crate::commands::Session;
use crate::commands::runs::stuck::{self, ResetStuckArgs};
use crate::failure::CommandResult;
use crate::output::{neutral, tell};

#[derive(Debug, Subcommand)]
pub(crate) enum MaintenanceCommand {
    /// Have the leader look at the schedules at once, as after a change of tables by hand
    Tick,
    /// Have the leader look at once for attempts that nobody ends, or say which those are: the same as `runs reset-stuck`
    ResetStuck(ResetStuckArgs),
}

pub(crate) async fn run(command: MaintenanceCommand, session: &Session) -> CommandResult {
    match command {
        MaintenanceCommand::Tick => {
            let leader: SchedulerInstance =
                session.api()?.post(&["maintenance", "tick"], None, &json!({})).await?;
            tell(&format!(
                "the leader, {} (process {}), was asked to look at the schedules",
                neutral::line(&leader.hostname),
                leader.pid
            ));
            Ok(exit::OK)
        }
        MaintenanceCommand::ResetStuck(args) => stuck::reset(args, session).await,
    }
}
