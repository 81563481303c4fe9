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
mod validate;

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
use crate::output::{Column, effective, join_list, or_dash, print_notice, time};

pub(crate) use self::applying::apply;
pub(crate) use self::args::JobsCommand;

/// Of the reason of a pause in a list.
const LONGEST_REASON: usize = 32;

pub(super) const LIST: &[Column<Job>] = &[
    Column::new("NAME", |job| job.name.clone()),
    Column::new("SCHEDULE", |job| schedule(job.job_type, &job.schedule_config)),
    Column::new("STATUS", short_status),
    Column::new("NEXT FIRE", |job| or_dash(job.next_run_at.map(time))),
    Column::new("LAST RUN", |job| or_dash(job.last_run_at.map(time))),
    Column::new("LAST STATUS", |job| or_dash(job.last_status)),
    Column::new("RUNS", |job| job.total_run_count.to_string()),
    Column::wide("PAUSE", |job| or_dash(pause(job))),
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
    Column::new("Paused", |job| or_dash(pause(job))),
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
    Column::new("Attempts", |job| effective(job.effective.max_attempts, "")),
    Column::new("Expected", |job| or_dash(job.expected_duration_seconds.map(seconds))),
    Column::new("Next fire", |job| or_dash(job.next_run_at.map(time))),
    Column::new("Last run", |job| or_dash(job.last_run_at.map(time))),
    Column::new("Last status", |job| or_dash(job.last_status)),
    Column::new("Runs", |job| format!("{}, {} open", job.total_run_count, job.active_runs)),
    Column::new("Scope", |job| job.scope.to_string()),
    Column::new("Project", |job| or_dash(job.project.as_deref())),
    Column::new("Queue", |job| format!("{} ({})", job.effective.queue.value, job.effective.queue.origin)),
    Column::new("Priority", |job| or_dash(job.priority)),
    Column::new("Timeout", |job| effective(job.effective.timeout_seconds, "s")),
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
        JobsCommand::Validate(args) => return validate::run(&args, session),
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

/// The pause has its own line, because a disabled job may also be paused.
fn status(job: &Job) -> String {
    let reason = match job.status {
        JobStatus::Paused | JobStatus::Enabled => None,
        JobStatus::Disabled | JobStatus::Quarantined | JobStatus::Deleted => job.disabled_reason.as_ref(),
    };
    reason.map_or_else(|| job.status.to_string(), |reason| format!("{}: {reason}", job.status))
}

/// `paused until 2026-11-25T01:00:00Z: disk is full`; a long reason is cut.
fn short_status(job: &Job) -> String {
    if job.status != JobStatus::Paused {
        return job.status.to_string();
    }
    let until = job.paused_until.map(|until| format!(" until {}", time(until))).unwrap_or_default();
    let reason = job.pause_reason.as_deref().map(|reason| format!(": {}", cut(reason))).unwrap_or_default();
    format!("{}{until}{reason}", job.status)
}

fn cut(reason: &str) -> String {
    let is_long = reason.chars().count() > LONGEST_REASON;
    let kept: String = reason.chars().take(LONGEST_REASON - usize::from(is_long)).collect();
    if is_long { format!("{}…", kept.trim_end()) } else { kept }
}

fn pause(job: &Job) -> Option<String> {
    let until = match job.paused_until {
        Some(until) => format!("until {}", time(until)),
        None => "until a user resumes it".to_owned(),
    };
    let reason = job.pause_reason.as_deref().map(|reason| format!(": {reason}")).unwrap_or_default();
    job.is_paused.then(|| format!("{until}{reason}"))
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
    fn paused_job_shows_end_and_reason() {
        // One `json!` of this size exceeds the recursion limit.
        let settings = r#"{
            "id": "00000000-0000-0000-0000-000000000000", "name": "j", "description": "", "scope": "project",
            "project": "p", "function": "f", "task_args": {}, "job_type": "interval", "schedule_config": {"hours": 1},
            "timezone": "UTC", "dst_gap": null, "dst_overlap": null, "start_at": null, "end_at": null,
            "max_runs": null, "jitter_seconds": 0, "calendars": [], "calendar_roll": "skip",
            "expected_duration_seconds": null, "after": [], "after_mode": "all", "followed_by": [],
            "misfire_policy": "skip", "misfire_grace_seconds": null, "misfire_cap": 1, "max_instances": 1,
            "overlap_policy": "skip", "queue": null, "priority": null, "timeout_seconds": null,
            "start_within_seconds": null, "retry_policy": null,
            "effective": {
                "max_attempts": {"value": 1, "origin": "installation"},
                "timeout_seconds": {"value": 300, "origin": "function"},
                "queue": {"value": "default", "origin": "function"}
            },
            "is_enabled": true, "disabled_reason": null,
            "is_paused": true, "next_run_at": null, "last_run_at": null, "last_status": null,
            "last_dispatched_at": null, "total_run_count": 0, "active_runs": 0, "tzdata_version": null,
            "version": 1, "created_at": "2026-01-01T00:00:00Z", "created_by": "c",
            "updated_at": "2026-01-01T00:00:00Z", "updated_by": "c"
        }"#;
        let job = |status: &str, until: Option<&str>, reason: Option<&str>| -> Job {
            let mut job: Value = serde_json::from_str(settings).unwrap();
            (job["status"], job["paused_until"]) = (json!(status), json!(until));
            job["pause_reason"] = json!(reason);
            serde_json::from_value(job).unwrap()
        };
        let at = "2027-01-01T00:00:00Z";
        for (status, until, reason, in_list, in_detail) in [
            ("paused", None, None, "paused", "until a user resumes it"),
            (
                "paused",
                None,
                Some("disk is full"),
                "paused: disk is full",
                "until a user resumes it: disk is full",
            ),
            (
                "paused",
                Some(at),
                Some("disk is full"),
                "paused until 2027-01-01T00:00:00Z: disk is full",
                "until 2027-01-01T00:00:00Z: disk is full",
            ),
            ("disabled", Some(at), None, "disabled", "until 2027-01-01T00:00:00Z"),
        ] {
            let job = job(status, until, reason);
            assert_eq!((short_status(&job).as_str(), pause(&job).as_deref()), (in_list, Some(in_detail)));
        }
        assert_eq!(cut(&"x".repeat(32)), "x".repeat(32));
        assert_eq!(cut(&"x".repeat(33)), format!("{}…", "x".repeat(31)));
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
