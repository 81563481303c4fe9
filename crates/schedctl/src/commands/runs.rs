//! `runs` and `attempts`: list, show and explain them, and print their output.

mod args;
pub(crate) mod cancel;
pub(crate) mod dead_letters;
mod exit_status;
mod logs;
mod shown;
pub(crate) mod stuck;
pub(crate) mod trigger;
mod waiting;

use sched_runtime::exit;
use sched_wire::{
    Attempt, AttemptOutput, AttemptsQuery, OutputChunk, Run, RunExplanation, RunsQuery, TimeSort, WaitFor,
};
use uuid::Uuid;

use self::shown::{ATTEMPT, RUN};
use super::{Session, print_more};
use crate::failure::CommandResult;
use crate::output::{Column, neutral, or_dash, print_notice, time};

pub(crate) use self::args::{AttemptsCommand, RunsCommand, WaitArgs};
pub(crate) use self::shown::ATTEMPTS;
pub(super) use self::shown::RUNS;
pub(crate) use self::shown::progress;

const EXPLAINED: &[Column<RunExplanation>] = &[
    Column::new("Job", |explained| explained.job.clone()),
    Column::new("Status", |explained| explained.run.status.to_string()),
    Column::new("Scheduled for", |explained| time(explained.run.scheduled_for)),
    Column::new("Triggered by", |explained| explained.run.triggered_by.clone()),
    Column::new("Queue", |explained| explained.run.queue.clone()),
    Column::new("What happened", |explained| explained.run.text.clone()),
    Column::wide("Caused by", |explained| or_dash(explained.run.caused_by)),
    Column::wide("Replaced by", |explained| or_dash(explained.run.replaced_by)),
    Column::wide("Database time", |explained| time(explained.now)),
];

/// Most relevant first.
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

pub(crate) async fn runs(command: RunsCommand, session: &Session) -> CommandResult {
    match command {
        RunsCommand::List {
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
            let query = |limit, cursor| RunsQuery {
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
            let items = session.api()?.list(&["runs"], limit, query).await?;
            session.output.page(&items, RUNS, "there are no such runs")?;
            print_more(&items, limit);
        }
        RunsCommand::Create(args) => return trigger::run(args, session).await,
        RunsCommand::Get { id } => {
            let run: Run = session.api()?.get(&["runs", &id.to_string()], &()).await?;
            session.output.whole(&run, RUN)?;
        }
        RunsCommand::Explain { id } => {
            let path = ["runs", &id.to_string(), "explain"];
            let explained: RunExplanation = session.api()?.get(&path, &()).await?;
            session.output.record(&explained, EXPLAINED)?;
            let waits = &explained.run.waits_for;
            if session.output.is_table() && !waits.is_empty() {
                session.output.print("\n")?;
                session.output.list(waits, WAITS_FOR, "")?;
            }
        }
        RunsCommand::Cancel { id, reason, wait } => {
            return cancel::run(id, reason, &wait, session).await;
        }
        RunsCommand::Logs(args) => return logs::run(args, session).await,
        RunsCommand::ResetStuck(args) => return stuck::reset(args, session).await,
        RunsCommand::Retry { id, wait } => {
            return cancel::retry(&["runs"], id, &wait, session).await;
        }
    }
    Ok(exit::OK)
}

pub(crate) async fn attempts(command: AttemptsCommand, session: &Session) -> CommandResult {
    match command {
        AttemptsCommand::List {
            job,
            run,
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
            let query = |limit, cursor| AttemptsQuery {
                job: job.clone(),
                run,
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
            let items = session.api()?.list(&["attempts"], limit, query).await?;
            session.output.page(&items, ATTEMPTS, "there are no such attempts")?;
            print_more(&items, limit);
        }
        AttemptsCommand::Get { id } => {
            let attempt: Attempt = session.api()?.get(&["attempts", &id.to_string()], &()).await?;
            session.output.whole(&attempt, ATTEMPT)?;
        }
        AttemptsCommand::Output { id, raw } => output(id, raw, session).await?,
    }
    Ok(exit::OK)
}

pub(super) async fn output(
    id: Uuid,
    raw: bool,
    session: &Session,
) -> Result<(), sched_runtime::exit::ExitError> {
    let path = ["attempts", &id.to_string(), "output"];
    let output: AttemptOutput = session.api()?.get(&path, &()).await?;
    if !session.output.is_table() {
        return session.output.record(&output, &[]);
    }
    if output.chunks.is_empty() {
        print_notice("the attempt has no output");
    }
    session.output.print(&text(&output.chunks, raw))?;
    if output.is_incomplete {
        print_notice(&format!("--- {INCOMPLETE} ---"));
    }
    Ok(())
}

/// Marks the output of a lost attempt.
const INCOMPLETE: &str = "the output is incomplete: it ends where the lost worker stopped sending it";

fn text(chunks: &[OutputChunk], raw: bool) -> String {
    let mut text = String::new();
    for (stream, title) in [("stdout", None), ("stderr", Some("standard error")), ("log", Some("log"))] {
        let mine: Vec<&OutputChunk> = chunks.iter().filter(|chunk| chunk.stream == stream).collect();
        if let Some(title) = title.filter(|_| !mine.is_empty()) {
            end_line(&mut text);
            text.push_str(&format!("--- {title} ---\n"));
        }
        for chunk in mine {
            if chunk.dropped_bytes > 0 {
                end_line(&mut text);
                text.push_str(&format!("--- {} bytes were not stored ---\n", chunk.dropped_bytes));
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
        let chunks = [
            chunk("stderr", "oops\u{1b}[2J", 0),
            chunk("stdout", "head", 0),
            chunk("stdout", "tail\n", 12),
            chunk("log", "noted", 0),
        ];
        insta::assert_snapshot!(text(&chunks, false), @r"
        head
        --- 12 bytes were not stored ---
        tail
        --- standard error ---
        oops\u{1b}[2J
        --- log ---
        noted
        ");
        assert!(text(&chunks, true).contains("oops\u{1b}[2J"));
    }
}
