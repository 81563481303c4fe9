//! `jobs`: list, show, pause and trigger them.

mod applying;
mod args;
mod create;
pub(crate) mod draft;
pub(crate) mod editing;
mod explain;
pub(crate) mod export;
pub(crate) mod job_types;
mod life;
mod past;
pub(crate) mod schedules;

use chrono::{DateTime, Utc};
use sched_runtime::exit::{self, ExitError};
use sched_wire::{
    AfterMode, AfterSpec, CalendarRoll, ExplainQuery, Include, Job, JobStatus, JobType, JobsQuery, Manifest,
    PauseRequest, Preview, PreviewQuery,
};
use serde::Serialize;
use serde_json::{Map, Value};

use self::args::{JobsListArgs, VersionArgs};
use super::{Session, print_more};
use crate::commands::runs::{cancel, trigger};
use crate::failure::{CommandResult, failure};
use crate::output::{Column, join_list, or_dash, print_notice, time};

pub(crate) use self::applying::apply;
pub(crate) use self::args::JobsCommand;

pub(super) const LIST: &[Column<Job>] = &[
    Column::new("NAME", |job| job.name.clone()),
    Column::new("SCHEDULE", |job| schedule(job.job_type, &job.schedule_config)),
    Column::new("STATUS", |job| job.status.to_string()),
    Column::new("NEXT FIRE", |job| or_dash(job.next_run_at.map(time))),
    Column::new("LAST RUN", |job| or_dash(job.last_run_at.map(time))),
    Column::new("LAST STATUS", |job| or_dash(job.last_status)),
    Column::new("RUNS", |job| job.total_run_count.to_string()),
    Column::wide("FUNCTION", |job| job.function.clone()),
    Column::wide("SCOPE", |job| job.scope.to_string()),
    Column::wide("PROJECT", |job| or_dash(job.project.as_deref())),
    Column::wide("OPEN", |job| job.active_runs.to_string()),
    Column::wide("VERSION", |job| job.version.to_string()),
    Column::wide("ID", |job| job.id.to_string()),
];

const GET: &[Column<Job>] = &[
    Column::new("Name", |job| job.name.clone()),
    Column::new("Description", |job| job.description.clone()),
    Column::new("Status", status),
    Column::new("Paused", |job| or_dash(pause_beside(job))),
    Column::new("Paused until", |job| or_dash(job.paused_until.map(time))),
    Column::new("Function", |job| job.function.clone()),
    Column::new("Arguments", |job| Value::from(job.task_args.clone()).to_string()),
    Column::new("Schedule", |job| schedule(job.job_type, &job.schedule_config)),
    Column::new("Time zone", |job| job.timezone.clone()),
    Column::new("Starts", |job| or_dash(job.start_at.map(time))),
    Column::new("Ends", |job| end(job.end_at, job.max_runs)),
    Column::new("Calendars", |job| calendars(&job.calendars, job.calendar_roll)),
    Column::new("Jitter", |job| or_dash(Some(job.jitter_seconds).filter(|most| *most > 0).map(seconds))),
    Column::new("Runs after", |job| after(&job.after, job.after_mode)),
    Column::new("Followed by", |job| or_dash(list(&job.followed_by))),
    Column::new("Misfires", |job| job.misfire_policy.to_string()),
    Column::new("Instances", |job| format!("{}, then {}", job.max_instances, job.overlap_policy)),
    Column::new("Attempts", |job| or_dash(job.retry_policy.as_ref().map(|policy| policy.max_attempts))),
    Column::new("Expected", |job| or_dash(job.expected_duration_seconds.map(seconds))),
    Column::new("Next fire", |job| or_dash(job.next_run_at.map(time))),
    Column::new("Last run", |job| or_dash(job.last_run_at.map(time))),
    Column::new("Last status", |job| or_dash(job.last_status)),
    Column::new("Runs", |job| format!("{}, {} open", job.total_run_count, job.active_runs)),
    Column::new("Scope", |job| job.scope.to_string()),
    Column::new("Project", |job| or_dash(job.project.as_deref())),
    Column::new("Queue", |job| or_dash(job.queue.as_deref())),
    Column::new("Priority", |job| or_dash(job.priority)),
    Column::new("Timeout", |job| or_dash(job.timeout_seconds.map(seconds))),
    Column::new("Starts within", |job| or_dash(job.start_within_seconds.map(seconds))),
    Column::new("Made from", |job| {
        or_dash(
            job.made_from
                .as_ref()
                .map(|from| format!("template {}, version {}", from.template, from.version)),
        )
    }),
    Column::new("Version", |job| job.version.to_string()),
    Column::new("Created", |job| format!("{} by {}", time(job.created_at), job.created_by)),
    Column::new("Updated", |job| format!("{} by {}", time(job.updated_at), job.updated_by)),
    Column::new("Id", |job| job.id.to_string()),
];

pub(crate) async fn run(command: JobsCommand, session: &Session) -> CommandResult {
    match command {
        JobsCommand::Apply(args) => return applying::run(args, session).await,
        JobsCommand::Schema => {
            let schema = serde_json::to_string_pretty(&Manifest::schema()).map_err(failure)?;
            session.output.print(&format!("{schema}\n"))?;
        }
        JobsCommand::List(args) => {
            let limit = args.limit;
            let wanted = list_query(args);
            let query = |limit, cursor| JobsQuery { limit: Some(limit), cursor, ..wanted.clone() };
            let jobs = session.api()?.list(&["jobs"], limit, query).await?;
            let none = if wanted == JobsQuery::default() {
                "there are no jobs; apply a file with `schedctl jobs apply -f FILE`"
            } else {
                "no job matches"
            };
            session.output.page(&jobs, LIST, none)?;
            print_more(&jobs, limit);
        }
        JobsCommand::Get { name } => {
            let job: Job = session.api()?.get(&["jobs", &name], &()).await?;
            session.output.record(&job, GET)?;
        }
        JobsCommand::Create(args) => return create::run(*args, session).await,
        JobsCommand::Edit { name } => return life::edit(&name, session).await,
        JobsCommand::Delete { name, version, yes } => {
            return life::delete(&name, &version, yes, session).await;
        }
        JobsCommand::Restore { name, new_name } => return life::restore(&name, new_name, session).await,
        JobsCommand::Versions { name, version: Some(version), .. } => {
            return life::version(&name, version, session).await;
        }
        JobsCommand::Versions { name, version: None, limit } => {
            return life::versions(&name, limit, session).await;
        }
        JobsCommand::Rollback { name, to, version } => {
            return life::roll_back(&name, to, &version, session).await;
        }
        JobsCommand::Preview { name, after, count } => {
            let query = PreviewQuery { after, count: Some(count) };
            let preview: Preview = session.api()?.get(&["jobs", &name, "preview"], &query).await?;
            return schedules::show(&preview.into(), session);
        }
        JobsCommand::Explain { name, from, to, at } => {
            return explain::run(&name, &ExplainQuery { from, to, at }, session).await;
        }
        JobsCommand::Pause { name, reason, until, version } => {
            let request = PauseRequest { reason, until };
            let job = switch(session, &["jobs", &name, "pause"], &version, &request).await?;
            if request.until.is_none()
                && let Some(until) = job.paused_until
            {
                print_notice(&format!(
                    "the pause still ends at {}; `--until never` removes that",
                    time(until)
                ));
            }
        }
        JobsCommand::Resume { name, version } => {
            switch(session, &["jobs", &name, "resume"], &version, &Map::new()).await?;
        }
        JobsCommand::Enable { name, version } => {
            switch(session, &["jobs", &name, "enable"], &version, &Map::new()).await?;
        }
        JobsCommand::Disable { name, version } => {
            switch(session, &["jobs", &name, "disable"], &version, &Map::new()).await?;
        }
        JobsCommand::Cancel { name, reason } => return cancel::of_job(&name, reason, session).await,
        JobsCommand::Trigger(args) => return trigger::run(args, session).await,
    }
    Ok(exit::OK)
}

fn list_query(args: JobsListArgs) -> JobsQuery {
    let include = match (args.all, args.deleted) {
        (false, false) => None,
        (true, false) => Some(Include::System),
        (false, true) => Some(Include::Deleted),
        (true, true) => Some(Include::All),
    };
    JobsQuery {
        include,
        q: args.query,
        name_prefix: args.prefix,
        status: args.status,
        function: args.function,
        project: args.project,
        queue: args.queue,
        job_type: args.job_type,
        last_status: args.last_status,
        template: args.template,
        sort: args.sort,
        ..JobsQuery::default()
    }
}

async fn switch(
    session: &Session,
    path: &[&str],
    version: &VersionArgs,
    body: &impl Serialize,
) -> Result<Job, ExitError> {
    let tag = version.tag();
    let header = tag.as_deref().map(|tag| ("If-Match", tag));
    let job: Job = session.api()?.post(path, header, body).await?;
    session.output.row(&job, LIST)?;
    Ok(job)
}

fn seconds(count: i32) -> String {
    format!("{count}s")
}

fn end(at: Option<DateTime<Utc>>, fires: Option<i64>) -> String {
    let ends = [at.map(time), fires.map(|fires| format!("after {fires} fires"))];
    let ends: Vec<String> = ends.into_iter().flatten().collect();
    or_dash(Some(ends.join(", or ")).filter(|text| !text.is_empty()))
}

fn calendars(names: &[String], roll: CalendarRoll) -> String {
    or_dash((!names.is_empty()).then(|| format!("{}, then {roll}", join_list(names))))
}

fn after(after: &[AfterSpec], mode: AfterMode) -> String {
    let several = match mode {
        _ if after.len() < 2 => "",
        AfterMode::All => "all of ",
        AfterMode::Any => "any of ",
    };
    or_dash(list(after).map(|list| format!("{several}{list}")))
}

fn list(jobs: &[AfterSpec]) -> Option<String> {
    let jobs: Vec<String> = jobs.iter().map(|other| format!("{} ({})", other.job, other.on)).collect();
    (!jobs.is_empty()).then(|| jobs.join(", "))
}

/// A disabled job may also be paused; the reason of the pause does not explain the status.
fn status(job: &Job) -> String {
    let reason = match job.status {
        JobStatus::Paused => job.pause_reason.as_ref(),
        JobStatus::Enabled => None,
        JobStatus::Disabled | JobStatus::Quarantined | JobStatus::Deleted => job.disabled_reason.as_ref(),
    };
    reason.map_or_else(|| job.status.to_string(), |reason| format!("{}: {reason}", job.status))
}

fn pause_beside(job: &Job) -> Option<String> {
    let is_beside = job.is_paused && job.status != JobStatus::Paused;
    is_beside.then(|| {
        job.pause_reason.as_ref().map_or_else(|| "too".to_owned(), |reason| format!("too: {reason}"))
    })
}

fn schedule(job_type: JobType, config: &Map<String, Value>) -> String {
    if let Some(expression) = config.get("expression").and_then(Value::as_str) {
        let day_match = config.get("day_match").and_then(Value::as_str);
        let day_match = day_match.map(|day_match| format!(" day_match={day_match}"));
        return format!("{job_type} {expression}{}", day_match.unwrap_or_default());
    }
    let fields: Vec<String> = config
        .iter()
        .map(|(name, value)| match value {
            Value::String(text) => format!("{name}={text}"),
            value => format!("{name}={value}"),
        })
        .collect();
    format!("{job_type} {}", fields.join(" ")).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use sched_wire::AfterCondition;
    use serde_json::json;

    use super::*;

    #[test]
    fn bounds_and_calendars_are_told_in_a_few_words() {
        let at = "2027-01-01T00:00:00Z".parse().ok();
        for (at, fires, told) in [
            (None, None, "-"),
            (at, None, "2027-01-01T00:00:00Z"),
            (None, Some(3), "after 3 fires"),
            (at, Some(3), "2027-01-01T00:00:00Z, or after 3 fires"),
        ] {
            assert_eq!(end(at, fires), told);
        }
        assert_eq!(calendars(&[], CalendarRoll::Skip), "-");
        let both = ["a", "b"].map(str::to_owned);
        assert_eq!(calendars(&both, CalendarRoll::NextBusinessDay), "a,b, then next_business_day");
    }

    #[test]
    fn schedule_shows_a_chosen_day_match() {
        for (config, shown) in [
            (json!({"expression": "0 0 13 * FRI"}), "cron 0 0 13 * FRI"),
            (json!({"expression": "0 0 13 * FRI", "day_match": "both"}), "cron 0 0 13 * FRI day_match=both"),
            (json!({"day": 13, "day_match": "either"}), "cron day=13 day_match=either"),
        ] {
            assert_eq!(schedule(JobType::Cron, config.as_object().unwrap()), shown);
        }
    }

    #[test]
    fn what_runs_after_what_is_told_in_a_few_words() {
        let spec = |job: &str, on| AfterSpec { job: job.to_owned(), on };
        let both = [spec("a", AfterCondition::Success), spec("b", AfterCondition::Failure)];
        assert_eq!(after(&[], AfterMode::All), "-");
        assert_eq!(after(&both[..1], AfterMode::Any), "a (success)");
        assert_eq!(after(&both, AfterMode::All), "all of a (success), b (failure)");
        assert_eq!(after(&both, AfterMode::Any), "any of a (success), b (failure)");
    }
}
