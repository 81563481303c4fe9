//! `audit-events`: the audit log, read-only.

use clap::Subcommand;
use sched_runtime::exit;
use sched_wire::{AuditEvent, AuditQuery, Page};

use crate::commands::{Session, print_more};
use crate::failure::CommandResult;
use crate::output::{Column, or_dash, time};
use crate::values::at_least_one;

#[derive(Debug, Subcommand)]
pub(crate) enum AuditEventsCommand {
    /// List audit events, newest first
    List {
        /// Only changes by this author, exactly as shown
        #[arg(long, value_name = "ACTOR")]
        actor: Option<String>,
        /// Only this action, such as `pause_job`
        #[arg(long, value_name = "ACTION")]
        action: Option<String>,
        /// Only changes of this kind of object, such as job
        #[arg(long, value_name = "KIND")]
        target_type: Option<String>,
        /// Only changes of the object with this id
        #[arg(long, value_name = "ID")]
        target: Option<String>,
        /// Only at this instant or later: RFC 3339, a wall-clock time in UTC, or a distance from
        /// now such as -2h
        #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
        since: Option<String>,
        /// Only before this instant
        #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
        until: Option<String>,
        /// Maximum number of audit events to list
        #[arg(long, value_name = "COUNT", default_value_t = 50, value_parser = at_least_one)]
        limit: usize,
    },
    /// Show one audit event, with the object before and after the change
    #[command(visible_alias = "show")]
    Get {
        /// Its number, as `schedctl audit-events list -o wide` shows it
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

pub(crate) async fn run(command: AuditEventsCommand, session: &Session) -> CommandResult {
    let (actor, action, target_type, target, since, until, limit) = match command {
        AuditEventsCommand::List { actor, action, target_type, target, since, until, limit } => {
            (actor, action, target_type, target, since, until, limit)
        }
        AuditEventsCommand::Get { number } => {
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
    session.output.page(&entries, LIST, "there are no such audit events")?;
    print_more(&entries, limit);
    Ok(exit::OK)
}
