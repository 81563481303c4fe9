//! `events`. A broken stream is reopened after its last message, so no event is missed. A wait
//! counts events from the opening of the stream on, with `--since` earlier ones too, and for a run
//! all events.

mod shown;

use std::io::{self, Write as _};
use std::time::Duration;

use clap::{Args, Subcommand};
use sched_runtime::exit::{self, ExitError};
use sched_wire::{
    Attempt, Event, EventStreamQuery, EventType, EventsQuery, Page, Run, RunStatus, StreamMessage,
};
use uuid::Uuid;

use self::shown::LIST;
use crate::api::{Api, ApiError, Events};
use crate::commands::{Session, print_more};
use crate::failure::{CommandResult, failure};
use crate::output::print_notice;
use crate::values::{at_least_one, duration, id};

const AGAIN_AFTER: Duration = Duration::from_secs(1);
/// Maximum number of consecutive failures.
const TRIES: u32 = 30;

/// Events with which a run may have ended.
pub(in crate::commands) const ENDS: [EventType; 5] = [
    EventType::ScheduleExecutionCompleted,
    EventType::ScheduleExecutionLost,
    EventType::DispatchDeadLetter,
    EventType::DispatchCancelled,
    EventType::DispatchExpired,
];

#[derive(Debug, Subcommand)]
pub(crate) enum EventsCommand {
    /// List events, newest first
    List {
        #[command(flatten)]
        filter: FilterArgs,
        /// Only events before this instant
        #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
        until: Option<String>,
        /// Maximum number of events to list
        #[arg(long, value_name = "COUNT", default_value_t = 50, value_parser = at_least_one)]
        limit: usize,
    },
    /// Print events as they happen, until Ctrl-C; `-o wide` adds their ids for --after
    Tail {
        #[command(flatten)]
        filter: FilterArgs,
        /// Continue after the event with this id
        #[arg(long, value_name = "ID", conflicts_with = "since")]
        after: Option<String>,
    },
    /// Wait until a run of a job, or a given run, has ended
    ///
    /// Exit code 0 if it ended with the expected status, 8 for another status, 9 if it did not end
    /// in time. A run that will be retried has not ended.
    #[command(group = clap::ArgGroup::new("what").required(true).args(["job", "run"]))]
    Wait {
        /// Name or id of the job; waits for its next run that ends
        #[arg(long, value_name = "NAME")]
        job: Option<String>,
        /// Id of a run, which may have ended already
        #[arg(long, value_name = "ID", value_parser = id)]
        run: Option<Uuid>,
        /// Expected status, such as succeeded or `dead_letter`
        #[arg(long, value_name = "STATUS", default_value = "succeeded", value_parser = final_status)]
        status: RunStatus,
        /// Maximum wait
        #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = duration)]
        timeout: Duration,
        /// Also count runs that ended at this instant or later
        #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
        since: Option<String>,
    },
}

#[derive(Debug, Clone, Args)]
pub(crate) struct FilterArgs {
    /// Only of this job, by name or id
    #[arg(long, value_name = "NAME")]
    job: Option<String>,
    /// Only of this project
    #[arg(long, value_name = "NAME")]
    project: Option<String>,
    /// Only of this run
    #[arg(long, value_name = "ID", value_parser = id)]
    run: Option<Uuid>,
    /// Only events of this type, such as `job_paused`; may be repeated
    #[arg(long = "type", value_name = "TYPE", value_delimiter = ',', value_parser = event_type)]
    types: Vec<EventType>,
    /// Only events at this instant or later: RFC 3339, a wall-clock time in UTC, or a distance from
    /// now such as -2h
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    since: Option<String>,
}

fn event_type(text: &str) -> Result<EventType, sched_wire::UnknownWord> {
    text.parse()
}

fn final_status(text: &str) -> Result<RunStatus, String> {
    let status: RunStatus = text.to_ascii_lowercase().parse().map_err(|error| format!("{error}"))?;
    if status.is_final() { Ok(status) } else { Err(format!("{status} is not a final status of a run")) }
}

impl FilterArgs {
    fn types(&self) -> Option<String> {
        let words: Vec<&str> = self.types.iter().map(|word| word.as_str()).collect();
        (!words.is_empty()).then(|| words.join(","))
    }
}

pub(crate) async fn run(command: EventsCommand, session: &Session) -> CommandResult {
    match command {
        EventsCommand::List { filter, until, limit } => list(&filter, until.as_deref(), limit, session).await,
        EventsCommand::Tail { filter, after } => {
            let query = EventStreamQuery {
                event_type: filter.types(),
                job: filter.job,
                project: filter.project,
                run: filter.run,
                since: filter.since,
                after,
            };
            tail(query, session).await
        }
        EventsCommand::Wait { job, run, status, timeout, since } => {
            if let Some(run) = run {
                let api = session.api()?;
                let known = known_run(&api, run).await?;
                if known.status.is_final() {
                    return report_past(&api, &known, status, session).await;
                }
            }
            let since = since.or_else(|| run.and_then(created_at));
            let event_type = Some(ENDS.map(EventType::as_str).join(","));
            let query = EventStreamQuery { job, run, event_type, since, ..EventStreamQuery::default() };
            match tokio::time::timeout(timeout, wait(query, session)).await {
                Ok(ended) => report(&ended?, status, session),
                Err(_) => {
                    print_notice(&format!("nothing ended within {}", humantime::format_duration(timeout)));
                    Ok(exit::TOO_LATE)
                }
            }
        }
    }
}

async fn list(filter: &FilterArgs, until: Option<&str>, limit: usize, session: &Session) -> CommandResult {
    let page = |limit, cursor| EventsQuery {
        job: filter.job.clone(),
        project: filter.project.clone(),
        run: filter.run,
        event_type: filter.types(),
        since: filter.since.clone(),
        until: until.map(str::to_owned),
        limit: Some(limit),
        cursor,
    };
    let events: Page<Event> = session.api()?.list(&["events"], limit, page).await?;
    session.output.page(&events, LIST, "there are no such events")?;
    print_more(&events, limit);
    Ok(exit::OK)
}

/// The id encodes the creation of the run; returns an instant shortly before.
fn created_at(run: Uuid) -> Option<String> {
    let (seconds, _) = run.get_timestamp()?.to_unix();
    let at =
        chrono::DateTime::from_timestamp(i64::try_from(seconds).ok()?, 0)? - chrono::TimeDelta::minutes(1);
    Some(at.to_rfc3339())
}

async fn tail(query: EventStreamQuery, session: &Session) -> CommandResult {
    let mut stream = Stream::new(session.api()?, query);
    let mut lines = session.output.is_table().then(|| session.output.lines(LIST));
    loop {
        let event = stream.next().await?;
        let line = match &mut lines {
            Some(lines) => lines.item(&event),
            None => session.output.streamed(&event)?,
        };
        let mut output = io::stdout().lock();
        match output.write_all(line.as_bytes()).and_then(|()| output.flush()) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(exit::OK),
            printed => printed.map_err(failure)?,
        }
    }
}

/// Refuses the id of a run that does not exist; an attempt has a similar id.
async fn known_run(api: &Api, run: Uuid) -> Result<Run, ExitError> {
    let id = run.to_string();
    let found: Result<Run, ApiError> = api.get(&["runs", &id], &()).await;
    match found {
        Err(error) if error.is_not_found() => {
            let attempt: Result<Attempt, ApiError> = api.get(&["attempts", &id], &()).await;
            if let Ok(attempt) = attempt {
                print_notice(&format!("this is the id of an attempt of run {}", attempt.run_id));
            }
            Err(error.into())
        }
        found => Ok(found?),
    }
}

/// Of a run that has ended already. Retention may have removed its events.
async fn report_past(api: &Api, run: &Run, expected: RunStatus, session: &Session) -> CommandResult {
    let query = EventsQuery {
        run: Some(run.id),
        event_type: Some(ENDS.map(EventType::as_str).join(",")),
        ..EventsQuery::default()
    };
    let events: Page<Event> = api.get(&["events"], &query).await?;
    match events.items.into_iter().find_map(|event| ended(&event).map(|status| (event, status))) {
        Some(end) => report(&end, expected, session),
        None => {
            print_notice(&format!("it ended as {}, and its events have been removed", run.status));
            Ok(if run.status == expected { exit::OK } else { exit::ENDED_OTHERWISE })
        }
    }
}

async fn wait(query: EventStreamQuery, session: &Session) -> Result<(Event, RunStatus), ExitError> {
    let mut stream = Stream::new(session.api()?, query);
    loop {
        let event = stream.next().await?;
        if let Some(status) = ended(&event) {
            return Ok((event, status));
        }
    }
}

fn ended(event: &Event) -> Option<RunStatus> {
    match event.event_type.parse().ok()? {
        EventType::ScheduleExecutionCompleted | EventType::ScheduleExecutionLost => {
            let status = event.data.get("run_status")?.as_str()?.parse::<RunStatus>().ok()?;
            status.is_final().then_some(status)
        }
        EventType::DispatchDeadLetter => Some(RunStatus::DeadLetter),
        EventType::DispatchCancelled => Some(RunStatus::Cancelled),
        EventType::DispatchExpired => Some(RunStatus::Failed),
        _ => None,
    }
}

fn report((event, found): &(Event, RunStatus), expected: RunStatus, session: &Session) -> CommandResult {
    session.output.record(event, LIST)?;
    if *found == expected {
        return Ok(exit::OK);
    }
    print_notice(&format!("it ended as {found}, not as {expected}"));
    Ok(exit::ENDED_OTHERWISE)
}

/// Reopened after every interruption.
struct Stream {
    api: Api,
    query: EventStreamQuery,
    open: Option<Events>,
    failures: u32,
}

impl Stream {
    fn new(api: Api, query: EventStreamQuery) -> Self {
        Self { api, query, open: None, failures: 0 }
    }

    async fn next(&mut self) -> Result<Event, ExitError> {
        loop {
            let Some(events) = &mut self.open else {
                self.open = self.reconnect().await?;
                continue;
            };
            // The cause does not matter: the stream is reopened.
            let Ok(Some((_, message))) = events.next::<StreamMessage>().await else {
                if let Some(position) = events.position() {
                    self.query.after = Some(position.to_owned());
                }
                self.open = None;
                tokio::time::sleep(AGAIN_AFTER).await;
                continue;
            };
            self.failures = 0;
            if let Some(id) = message.id() {
                // From now on the position replaces `since`.
                self.query.after = Some(id.to_owned());
            }
            match message {
                StreamMessage::Event(event) => return Ok(event),
                StreamMessage::HeldBack { seconds } => {
                    print_notice(&format!(
                        "events are delayed by an open transaction in the database since {seconds} s"
                    ));
                }
                StreamMessage::Reset { reason, .. } => {
                    print_notice(&format!(
                        "events may be missing: the position is no longer valid ({reason})"
                    ));
                }
                StreamMessage::Open { .. } | StreamMessage::KeepAlive { .. } | StreamMessage::End { .. } => {}
            }
        }
    }

    /// Reopens the stream; `None` if a later attempt may succeed.
    async fn reconnect(&mut self) -> Result<Option<Events>, ExitError> {
        match self.api.events(&["events", "stream"], &self.query).await {
            Ok(events) => Ok(Some(events)),
            Err(error) if error.is_passing() && self.failures < TRIES => {
                // The first request is interactive: it fails at once.
                if self.query.after.is_none() && matches!(error, ApiError::Unreachable { .. }) {
                    return Err(error.into());
                }
                self.failures += 1;
                tokio::time::sleep(AGAIN_AFTER).await;
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event(event_type: &str, data: serde_json::Value) -> Event {
        Event {
            id: "1".into(),
            event_type: event_type.into(),
            at: chrono::DateTime::UNIX_EPOCH,
            project_id: None,
            job_id: None,
            run_id: None,
            is_installation: false,
            data: data.as_object().cloned().unwrap(),
        }
    }

    #[test]
    fn a_run_has_ended_when_its_dispatch_has() {
        for (event_type, data, expected) in [
            ("schedule_execution_completed", json!({"run_status": "succeeded"}), Some(RunStatus::Succeeded)),
            ("schedule_execution_completed", json!({"run_status": "waiting"}), None),
            (
                "schedule_execution_completed",
                json!({"run_status": "dead_letter"}),
                Some(RunStatus::DeadLetter),
            ),
            ("schedule_execution_completed", json!({}), None),
            ("schedule_execution_lost", json!({"run_status": "timed_out"}), Some(RunStatus::TimedOut)),
            ("schedule_execution_lost", json!({"run_status": "cancelled"}), Some(RunStatus::Cancelled)),
            ("schedule_execution_lost", json!({"run_status": "waiting"}), None),
            ("dispatch_dead_letter", json!({}), Some(RunStatus::DeadLetter)),
            ("dispatch_cancelled", json!({}), Some(RunStatus::Cancelled)),
            ("dispatch_expired", json!({}), Some(RunStatus::Failed)),
            ("job_paused", json!({}), None),
            ("of_a_newer_api", json!({}), None),
        ] {
            assert_eq!(ended(&event(event_type, data.clone())), expected, "{event_type} {data}");
        }
    }

    #[test]
    fn a_dispatch_tells_when_it_was_made() {
        let id: Uuid = "019aa8f2-1d80-7000-8000-000000000000".parse().unwrap();
        assert!(created_at(id).is_some_and(|at| at.starts_with("2025-11-2")), "{:?}", created_at(id));
        assert_eq!(created_at(Uuid::nil()), None);
    }
}
