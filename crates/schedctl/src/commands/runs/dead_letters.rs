//! `dead-letters`. A command for many sends requests until all are handled; an interrupted one can
//! be repeated.

use anyhow::anyhow;
use clap::{Args, Subcommand};
use sched_runtime::exit::{self, ExitError};
use sched_runtime::monotonic_clock::monotonic;
use sched_wire::{
    DeadLetter, DeadLetterChoice, DeadLettersCommand as Request, DeadLettersQuery, DeadLettersSettled,
    ReasonRequest, RefusedCount, RetriedDeadLetter, Run, RunStatus, TimeSort, UnknownWord,
};
use serde::Serialize;
use uuid::Uuid;

use super::cancel;
use super::waiting::{await_end, may_wait};
use crate::api::Api;
use crate::commands::runs::WaitArgs;
use crate::commands::{Session, print_more};
use crate::consent::{self, WithoutTerminal};
use crate::failure::{CommandResult, usage};
use crate::output::{Column, List, count, neutral, or_dash, print_notice, time};
use crate::values::{at_least_one, id};

#[derive(Debug, Subcommand)]
pub(crate) enum DeadLettersCommand {
    /// List dead letters, newest runs first
    List {
        #[command(flatten)]
        filter: FilterArgs,
        /// Only with this decision: open, retried, discarded or all
        #[arg(long, value_name = "STATE", default_value = "open", value_parser = choice)]
        state: DeadLetterChoice,
        /// List the oldest first
        #[arg(long)]
        oldest_first: bool,
        /// Maximum number of dead letters to list
        #[arg(long, value_name = "COUNT", default_value_t = 50, value_parser = at_least_one)]
        limit: usize,
    },
    /// Show all fields of a dead letter: its error, its arguments, and the decision
    #[command(visible_alias = "show")]
    Get {
        /// Id of the run
        #[arg(value_parser = id)]
        id: Uuid,
    },
    /// Retry one dead letter, or all open ones of a filter
    ///
    /// Each retry creates a new run with the fire time and the arguments of the old one, and with
    /// the current settings of the job and its function. Dead letters of deleted or disabled jobs
    /// stay open; exit code 1 if there are any.
    ///
    /// With --wait it ends when all new runs have ended; exit code 1 unless all succeeded.
    Retry {
        #[command(flatten)]
        which: WhichArgs,
        #[command(flatten)]
        wait: WaitArgs,
    },
    /// Discard one dead letter, or all open ones of a filter; they stay visible until retention
    /// removes them
    Discard {
        #[command(flatten)]
        which: WhichArgs,
        /// Reason, for people
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
        /// Skip the confirmation
        #[arg(long, short)]
        yes: bool,
    },
}

#[derive(Debug, Clone, Args)]
pub(crate) struct FilterArgs {
    /// Only of this job, by name or id
    #[arg(long, value_name = "NAME")]
    job: Option<String>,
    /// Only of jobs of this project
    #[arg(long, value_name = "NAME")]
    project: Option<String>,
    /// Only of this queue
    #[arg(long, value_name = "NAME")]
    queue: Option<String>,
    /// Only those whose last failure has this class, such as `exit_code`
    #[arg(long, value_name = "CLASS")]
    error_class: Option<String>,
    /// Only those that died at this instant or later: RFC 3339, a wall-clock time in UTC, or a
    /// distance from now such as -2h
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    since: Option<String>,
    /// Only those that died before this instant
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    until: Option<String>,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct WhichArgs {
    /// Id of the run of a single dead letter; otherwise use a filter or --all
    #[arg(value_name = "ID", value_parser = id, conflicts_with_all = ["all", "dry_run", "job", "project", "queue", "error_class", "since", "until"])]
    id: Option<Uuid>,
    #[command(flatten)]
    filter: FilterArgs,
    /// All open dead letters
    #[arg(long, conflicts_with_all = ["job", "project", "queue", "error_class", "since", "until"])]
    all: bool,
    /// Change nothing; count the selected dead letters and show the newest
    #[arg(long)]
    dry_run: bool,
}

fn choice(text: &str) -> Result<DeadLetterChoice, UnknownWord> {
    text.to_ascii_lowercase().parse()
}

const LIST: &[Column<DeadLetter>] = &[
    Column::new("ID", |letter| letter.run_id.to_string()),
    Column::new("JOB", |letter| letter.job.clone()),
    Column::new("DIED", |letter| time(letter.died_at)),
    Column::new("ATTEMPTS", attempts),
    Column::new("CLASS", |letter| or_dash(letter.error_class.as_deref())),
    Column::new("ERROR", |letter| or_dash(letter.error_message.as_deref())),
    Column::wide("SCHEDULED FOR", |letter| time(letter.scheduled_for)),
    Column::wide("QUEUE", |letter| letter.queue.clone()),
    Column::wide("LOST", |letter| letter.lost_count.to_string()),
    Column::wide("ARGUMENTS", |letter| letter.task_args.to_string()),
    Column::wide("STATE", |letter| letter.state.to_string()),
    Column::wide("SETTLED", |letter| or_dash(letter.settled_at.map(time))),
    Column::wide("BY", |letter| or_dash(letter.settled_by.as_deref())),
    Column::wide("REASON", |letter| or_dash(letter.settled_reason.as_deref())),
    Column::wide("RETRIED AS", |letter| or_dash(letter.retried_as)),
];

/// Without the run, if retention has removed it.
struct LetterWithRun {
    letter: DeadLetter,
    run: Option<Run>,
}

const GET: &[Column<LetterWithRun>] = &[
    Column::new("Run", |entry| entry.letter.run_id.to_string()),
    Column::new("Job", |entry| entry.letter.job.clone()),
    Column::new("Job id", |entry| entry.letter.job_id.to_string()),
    Column::new("State", |entry| entry.letter.state.to_string()),
    Column::new("Died", |entry| time(entry.letter.died_at)),
    Column::new("Error", |entry| or_dash(entry.letter.error_message.as_deref())),
    Column::new("Error class", |entry| or_dash(entry.letter.error_class.as_deref())),
    Column::new("Last output", |entry| or_dash(entry.letter.output_tail.as_deref())),
    Column::new("URL", |entry| or_dash(entry.letter.url.as_deref())),
    Column::new("Arguments", |entry| entry.letter.task_args.to_string()),
    Column::new("Attempts", |entry| attempts(&entry.letter)),
    Column::new("Lost", |entry| entry.letter.lost_count.to_string()),
    Column::new("Scheduled for", |entry| time(entry.letter.scheduled_for)),
    Column::new("Triggered by", |entry| or_dash(entry.run.as_ref().map(|run| run.triggered_by.as_str()))),
    Column::new("Queue", |entry| entry.letter.queue.clone()),
    Column::new("Worker", |entry| or_dash(entry.run.as_ref().and_then(|run| run.worker_id))),
    Column::new("Settled", |entry| or_dash(entry.letter.settled_at.map(time))),
    Column::new("By", |entry| or_dash(entry.letter.settled_by.as_deref())),
    Column::new("Reason", |entry| or_dash(entry.letter.settled_reason.as_deref())),
    Column::new("Retried as", |entry| or_dash(entry.letter.retried_as)),
    Column::new("Trace id", |entry| or_dash(entry.run.as_ref().and_then(|run| run.trace_id.as_deref()))),
];

/// Released attempts separately: they use up no retry.
fn attempts(letter: &DeadLetter) -> String {
    match letter.handed_back {
        0 => letter.attempts.to_string(),
        handed_back => format!("{} (+{handed_back} released)", letter.attempts - handed_back),
    }
}

#[derive(Debug, Default, Serialize)]
struct Done {
    count: i64,
    refused: Vec<RefusedCount>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    retried: Vec<RetriedDeadLetter>,
}

impl Done {
    fn code(&self) -> u8 {
        if self.refused.is_empty() { exit::OK } else { exit::FAILURE }
    }
}

const RETRIED: &[Column<RetriedDeadLetter>] = &[
    Column::new("RUN", |retried| retried.run_id.to_string()),
    Column::new("RETRIED AS", |retried| retried.retried_as.to_string()),
];

const DONE: &[Column<Done>] = &[
    Column::new("Done", |done| done.count.to_string()),
    Column::new("Rejected", |done| {
        let each = done.refused.iter().map(|refused| format!("{} {}", refused.count, refused.code));
        or_dash(Some(each.collect::<Vec<_>>().join(", ")).filter(|text| !text.is_empty()))
    }),
];

const NONE: &str = "there are no such dead letters";

pub(crate) async fn run(command: DeadLettersCommand, session: &Session) -> CommandResult {
    match command {
        DeadLettersCommand::List { filter, state, oldest_first, limit } => {
            let sort = oldest_first.then_some(TimeSort::CreatedAt);
            let query =
                |limit, cursor| DeadLettersQuery { sort, ..query(filter.clone(), state, limit, cursor) };
            let letters = session.api()?.list(&["dead-letters"], limit, query).await?;
            session.output.page(&letters, LIST, NONE)?;
            print_more(&letters, limit);
        }
        DeadLettersCommand::Get { id } => get(id, session).await?,
        DeadLettersCommand::Retry { which: WhichArgs { id: Some(id), .. }, wait } => {
            return cancel::retry(&["dead-letters"], id, &wait, session).await;
        }
        DeadLettersCommand::Retry { which, wait } => {
            return retry_many(request(which, None)?, &wait, session).await;
        }
        DeadLettersCommand::Discard { which: WhichArgs { id: Some(id), .. }, reason, .. } => {
            let path = ["dead-letters", &id.to_string(), "discard"];
            let letter: DeadLetter = session.api()?.post(&path, None, &ReasonRequest { reason }).await?;
            session.output.record(&letter, LIST)?;
        }
        DeadLettersCommand::Discard { which, reason, yes } => {
            let request = request(which, reason)?;
            let Some(done) = many("discard", request, yes, session).await? else { return Ok(exit::OK) };
            session.output.record(&done, DONE)?;
            return Ok(done.code());
        }
    }
    Ok(exit::OK)
}

/// Only tables have details of the run.
async fn get(id: Uuid, session: &Session) -> Result<(), ExitError> {
    let (api, id) = (session.api()?, id.to_string());
    let letter: DeadLetter = api.get(&["dead-letters", &id], &()).await?;
    if !session.output.is_table() {
        return session.output.record(&letter, LIST);
    }
    let run = match api.get(&["runs", &id], &()).await {
        Ok(run) => Some(run),
        Err(error) if error.is_not_found() => None,
        Err(error) => return Err(error.into()),
    };
    session.output.table(&LetterWithRun { letter, run }, GET)
}

fn query(
    filter: FilterArgs,
    state: DeadLetterChoice,
    limit: u32,
    cursor: Option<String>,
) -> DeadLettersQuery {
    let FilterArgs { job, project, queue, error_class, since, until } = filter;
    DeadLettersQuery {
        state: Some(state),
        job,
        project,
        queue,
        error_class,
        since,
        until,
        sort: None,
        limit: Some(limit),
        cursor,
    }
}

async fn retry_many(request: Request, wait: &WaitArgs, session: &Session) -> CommandResult {
    if wait.wait {
        may_wait(&session.api()?).await?;
    }
    let Some(done) = many("retry", request, true, session).await? else { return Ok(exit::OK) };
    if session.output.is_table() {
        session.output.rows(&done.retried, RETRIED)?;
    }
    session.output.record(&done, DONE)?;
    if !wait.wait || done.retried.is_empty() {
        return Ok(done.code());
    }
    print_notice(&format!("waiting for the end of {}", count(done.retried.len(), "run", "runs")));
    let (api, began) = (session.api()?, monotonic());
    let mut failed = 0_usize;
    for retried in &done.retried {
        let left = wait.wait_timeout.saturating_sub(began.elapsed());
        let run = await_end(&api, retried.retried_as, left).await?;
        if run.status != RunStatus::Succeeded {
            failed += 1;
            print_notice(&format!(
                "run {} of job {} ended as {}",
                run.id,
                neutral::line(&run.job),
                run.status
            ));
        }
    }
    print_notice(&format!(
        "{} succeeded, {failed} did not",
        count(done.retried.len() - failed, "run", "runs")
    ));
    Ok(if failed == 0 { done.code() } else { exit::FAILURE })
}

/// `None` after a dry run.
async fn many(
    action: &str,
    mut request: Request,
    is_agreed: bool,
    session: &Session,
) -> Result<Option<Done>, ExitError> {
    let api = session.api()?;
    if request.dry_run || !is_agreed {
        let meant = send(&api, action, &Request { dry_run: true, ..request.clone() }).await?;
        if request.dry_run {
            let selected = count(meant.count, "is", "are");
            print_notice(&format!("{selected} selected; nothing was changed"));
            let list = List { items: &meant.sample, columns: LIST, nothing: NONE };
            session.output.items(&meant, list)?;
            return Ok(None);
        }
        let letters = count(meant.count, "dead letter", "dead letters");
        consent::confirm(&format!("This {action}s {letters} permanently"), "--yes", WithoutTerminal::Refuse)?;
    }
    let mut done = Done::default();
    loop {
        let page = send(&api, action, &request).await?;
        done.count += page.count;
        done.retried.extend(page.retried);
        for refused in page.refused {
            match done.refused.iter_mut().find(|entry| entry.code == refused.code) {
                Some(entry) => entry.count += refused.count,
                None => done.refused.push(refused),
            }
        }
        request.cursor = page.next_cursor;
        if request.cursor.is_none() {
            break;
        }
    }
    Ok(Some(done))
}

async fn send(api: &Api, action: &str, request: &Request) -> Result<DeadLettersSettled, ExitError> {
    Ok(api.post(&["dead-letters", action], None, request).await?)
}

fn request(which: WhichArgs, reason: Option<String>) -> Result<Request, ExitError> {
    let WhichArgs { filter, all, dry_run, .. } = which;
    let FilterArgs { job, project, queue, error_class, since, until } = filter;
    let filters = [&job, &project, &queue, &error_class, &since, &until];
    if !all && filters.iter().all(|filter| filter.is_none()) {
        return Err(usage(anyhow!("select dead letters with an ID, a filter such as --job, or --all")));
    }
    Ok(Request { job, project, queue, error_class, since, until, all, dry_run, reason, cursor: None })
}
