//! `audit`: who changed what. Reads only.

use clap::Subcommand;
use sched_runtime::exit;
use sched_wire::{AuditEvent, AuditQuery, Page};

use crate::commands::{Session, tell_of_more};
use crate::failure::CommandResult;
use crate::output::{Column, or_dash, time};
use crate::values::at_least_one;

#[derive(Debug, Subcommand)]
pub(crate) enum AuditCommand {
    /// List changes, newest first
    List {
        /// Only by whom, exactly as it is shown
        #[arg(long, value_name = "ACTOR")]
        actor: Option<String>,
        /// Only what was done, such as `pause_job`
        #[arg(long, value_name = "ACTION")]
        action: Option<String>,
        /// Only to things of this kind, such as job
        #[arg(long, value_name = "KIND")]
        target_type: Option<String>,
        /// Only to this thing
        #[arg(long, value_name = "ID")]
        target: Option<String>,
        /// Only from then on: RFC 3339, a time on the clock of UTC, or a distance from now such as -2h
        #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
        since: Option<String>,
        /// Only those before then
        #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
        until: Option<String>,
        /// Most entries to list
        #[arg(long, value_name = "COUNT", default_value_t = 50, value_parser = at_least_one)]
        limit: usize,
    },
    /// Show one change, with what was before and after
    #[command(visible_alias = "show")]
    Get {
        /// Its number, as `schedctl audit list -o wide` shows it
        number: i64,
    },
}

const LIST: &[Column<AuditEvent>] = &[
    Column::new("AT", |entry| time(entry.at)),
    Column::new("ACTOR", |entry| entry.actor.clone()),
    Column::new("ACTION", |entry| entry.action.clone()),
    Column::new("KIND", |entry| entry.target_type.clone()),
    Column::new("TARGET", |entry| entry.target_id.clone()),
    Column::wide("ADDRESS", |entry| or_dash(entry.address.as_deref())),
    Column::wide("NUMBER", |entry| entry.id.to_string()),
    Column::wide("REQUEST", |entry| or_dash(entry.request_id.as_deref())),
    Column::wide("BEFORE", |entry| or_dash(entry.before.as_ref())),
    Column::wide("AFTER", |entry| or_dash(entry.after.as_ref())),
];

pub(crate) async fn run(command: AuditCommand, session: &Session) -> CommandResult {
    let (actor, action, target_type, target, since, until, limit) = match command {
        AuditCommand::List { actor, action, target_type, target, since, until, limit } => {
            (actor, action, target_type, target, since, until, limit)
        }
        AuditCommand::Get { number } => {
            let entry: AuditEvent = session.api()?.get(&["audit-events", &number.to_string()], &()).await?;
            session.output.whole(&entry, LIST)?;
            return Ok(exit::OK);
        }
    };
    let page = |limit, cursor| AuditQuery {
        actor: actor.clone(),
        action: action.clone(),
        target_type: target_type.clone(),
        target_id: target.clone(),
        since: since.clone(),
        until: until.clone(),
        limit: Some(limit),
        cursor,
        sort: None,
    };
    let entries: Page<AuditEvent> = session.api()?.list(&["audit-events"], limit, page).await?;
    session.output.page(&entries, LIST, "nobody has changed anything")?;
    tell_of_more(&entries, limit);
    Ok(exit::OK)
}
