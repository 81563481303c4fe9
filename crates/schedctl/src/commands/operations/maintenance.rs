//! `maintenance`: requests to the leader for immediate work. Events report the result.

use clap::Subcommand;
use sched_runtime::exit;
use sched_wire::SchedulerInstance;
use serde_json::json;

use crate::commands::Session;
use crate::commands::runs::stuck::{self, ResetStuckArgs};
use crate::failure::CommandResult;
use crate::output::{neutral, print_notice};

#[derive(Debug, Subcommand)]
pub(crate) enum MaintenanceCommand {
    /// Request an immediate scheduling round, for example after tables were changed by hand
    Tick,
    /// Request an immediate reset of stuck attempts, or list them: same as `runs reset-stuck`
    ResetStuck(ResetStuckArgs),
}

pub(crate) async fn run(command: MaintenanceCommand, session: &Session) -> CommandResult {
    match command {
        MaintenanceCommand::Tick => {
            let leader: SchedulerInstance =
                session.api()?.post(&["maintenance", "tick"], None, &json!({})).await?;
            print_notice(&format!(
                "requested a scheduling round of the leader {} (process {})",
                neutral::line(&leader.hostname),
                leader.pid
            ));
            Ok(exit::OK)
        }
        MaintenanceCommand::ResetStuck(args) => stuck::reset(args, session).await,
    }
}
