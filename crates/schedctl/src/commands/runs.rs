//! `dispatches` and `executions`: what is to be run, what has been, and what it wrote. Cancelling and running again are in [`cancel`].

mod args;
pub(crate) mod cancel;
pub(crate) mod dead_letters;
pub(crate) mod logs;
mod shown;
pub(crate) mod stuck;

use sched_runtime::exit;
use sched_wire::{
    Dispatch, DispatchExplanation, DispatchesQuery, Execution, ExecutionOutput, ExecutionsQuery, OutputChunk,
    TimeSort, WaitFor,
};
use uuid::Uuid;

use self::shown::{DISPATCH, EXECUTION};
use super::{Session, jobs, tell_of_more};
use crate::failure::CommandResult;
use crate::output::{Column, neutral, or_dash, tell, time};

pub(crate) use self::args::{DispatchesCommand, ExecutionsCommand, WaitArgs};
pub(crate) use self::shown::EXECUTIONS;
pub(super) use self::shown::{DISPATCHES, progress};

const EXPLAINED: &[Column<DispatchExplanation>] = &[
    Column::new("Job", |explained| explained.job.clone()),
    Column::new("Status", |explained| explained.dispatch.status.to_string()),
    Column::new("Scheduled for", |explained| time(explained.dispatch.scheduled_for)),
    Column::new("Triggered by", |explained| explained.dispatch.triggered_by.clone()),
    Column::new("Queue", |explained| explained.dispatch.queue.clone()),
    Column::new("What happened", |explained| explained.dispatch.text.clone()),
    Column::wide("Caused by", |explained| or_dash(explained.dispatch.caused_by)),
    Column::wide("Replaced by", |explained| or_dash(explained.dispatch.replaced_by)),
    Column::wide("Database time", |explained| time(explained.now)),
];

/// What is waited for, the first thing to look at first.
pub(super) const WAITS_FOR: &[Column<WaitFor>] = &[
    Column::new("WAITS FOR", |wait| wait.what.clone()),
    Column::new("UNTIL", |wait| or_dash(wait.until.map(time))),
    Column::wide("BEFORE IT", before),
    Column::new("THAT IS", |wait| wait.text.clone()),
];

fn before(wait: &WaitFor) -> String {
    let more = if wait.is_before_exact == Some(false) { "+" } else { "" };
    or_dash(wait.before.map(|before| format!("{before}{more}")))
}

pub(super) async fn dispatches(command: DispatchesCommand, session: &Session) -> CommandResult {
    match command {
        DispatchesCommand::List {
            job,
            status,
            function,
            project,
            queue,
            worker,
            triggered_by,
            since,
            until,
            oldest_first,
            limit,
        } => {
            let query = |limit, cursor| DispatchesQuery {
                job: job.clone(),
                status,
                function: function.clone(),
                project: project.clone(),
                queue: queue.clone(),
                worker,
                triggered_by: triggered_by.clone(),
                sort: oldest_first.then_some(TimeSort::CreatedAt),
                since: since.clone(),
                until: until.clone(),
                total: None,
                limit: Some(limit),
                cursor,
            };
            let items = session.api()?.list(&["dispatches"], limit, query).await?;
            session.output.page(&items, DISPATCHES, "there are no such dispatches")?;
            tell_of_more(&items, limit);
        }
        DispatchesCommand::Create(args) => return jobs::run_now(args, session).await,
        DispatchesCommand::Get { id } => {
            let dispatch: Dispatch = session.api()?.get(&["dispatches", &id.to_string()], &()).await?;
            session.output.whole(&dispatch, DISPATCH)?;
        }
        DispatchesCommand::Explain { id } => {
            let path = ["dispatches", &id.to_string(), "explain"];
            let explained: DispatchExplanation = session.api()?.get(&path, &()).await?;
            session.output.record(&explained, EXPLAINED)?;
            let waits = &explained.dispatch.waits_for;
            if session.output.is_table() && !waits.is_empty() {
                session.output.print("\n")?;
                session.output.list(waits, WAITS_FOR, "")?;
            }
        }
        DispatchesCommand::Cancel { id, reason, wait } => {
            return cancel::dispatch(id, reason, &wait, session).await;
        }
        DispatchesCommand::ResetStuck(args) => return stuck::reset(args, session).await,
        DispatchesCommand::Retry { id, wait } => {
            return cancel::retry(&["dispatches"], id, &wait, session).await;
        }
    }
    Ok(exit::OK)
}

pub(super) async fn executions(command: ExecutionsCommand, session: &Session) -> CommandResult {
    match command {
        ExecutionsCommand::List {
            job,
            dispatch,
            status,
            function,
            project,
            worker,
            triggered_by,
            since,
            until,
            oldest_first,
            limit,
        } => {
            let query = |limit, cursor| ExecutionsQuery {
                job: job.clone(),
                dispatch,
                status,
                function: function.clone(),
                project: project.clone(),
                worker,
                triggered_by: triggered_by.clone(),
                sort: oldest_first.then_some(TimeSort::CreatedAt),
                since: since.clone(),
                until: until.clone(),
                total: None,
                limit: Some(limit),
                cursor,
            };
            let items = session.api()?.list(&["executions"], limit, query).await?;
            session.output.page(&items, EXECUTIONS, "there are no such executions")?;
            tell_of_more(&items, limit);
        }
        ExecutionsCommand::Get { id } => {
            let execution: Execution = session.api()?.get(&["executions", &id.to_string()], &()).await?;
            session.output.whole(&execution, EXECUTION)?;
        }
        ExecutionsCommand::Output { id, raw } => output(id, raw, session).await?,
    }
    Ok(exit::OK)
}

pub(super) async fn output(
    id: Uuid,
    raw: bool,
    session: &Session,
) -> Result<(), sched_runtime::exit::ExitError> {
    let path = ["executions", &id.to_string(), "output"];
    let output: ExecutionOutput = session.api()?.get(&path, &()).await?;
    if !session.output.is_table() {
        return session.output.record(&output, &[]);
    }
    if output.chunks.is_empty() {
        tell("the execution wrote nothing");
    }
    session.output.print(&text(&output.chunks, raw))
}

/// The streams one after the other, standard output first, with a line where something was dropped.
fn text(chunks: &[OutputChunk], raw: bool) -> String {
    let mut text = String::new();
    for stream in ["stdout", "stderr"] {
        let mine: Vec<&OutputChunk> = chunks.iter().filter(|chunk| chunk.stream == stream).collect();
        if stream == "stderr" && !mine.is_empty() {
            end_line(&mut text);
            text.push_str("--- standard error ---\n");
        }
        for chunk in mine {
            if chunk.dropped_bytes > 0 {
                end_line(&mut text);
                text.push_str(&format!("--- {} bytes were not kept ---\n", chunk.dropped_bytes));
            }
            text.push_str(&if raw { chunk.content.as_str().into() } else { neutral::block(&chunk.content) });
        }
    }
    if !raw {
        end_line(&mut text);
    }
    text
}

fn end_line(text: &mut String) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(stream: &str, content: &str, dropped_bytes: i64) -> OutputChunk {
        OutputChunk { stream: stream.into(), chunk: 0, content: content.into(), dropped_bytes }
    }

    #[test]
    fn output_is_shown_stream_by_stream_and_harmless() {
        let chunks =
            [chunk("stderr", "oops\u{1b}[2J", 0), chunk("stdout", "head", 0), chunk("stdout", "tail\n", 12)];
        insta::assert_snapshot!(text(&chunks, false), @r"
        head
        --- 12 bytes were not kept ---
        tail
        --- standard error ---
        oops\u{1b}[2J
        ");
        assert!(text(&chunks, true).contains("oops\u{1b}[2J"));
    }
}
