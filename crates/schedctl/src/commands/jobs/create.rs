//! `jobs create`. The API rejects the creation of an existing job, so nothing is overwritten.

use std::path::PathBuf;

use anyhow::anyhow;
use chrono::{DateTime, SecondsFormat, Utc};
use clap::Args;
use sched_model::domain::time_expression::Moment;
use sched_model::domain::timetable::{DayMatch, JobType};
use sched_runtime::exit::{self, ExitError};
use sched_wire::{Function, Job, JobSpec, Status};
use serde_json::{Value, json};

use super::super::suggestions as suggest;
use super::{LIST, Session, past};
use crate::api::Api;
use crate::commands::definitions::queues;
use crate::commands::jobs::draft::{Draft, object, placed};
use crate::commands::jobs::schedules::{cron_config, kind, period};
use crate::failure::{CommandResult, usage};
use crate::manifest::Single;
use crate::output::print_notice;
use crate::values::{instant_of, moment, seconds, whole, within};

#[derive(Debug, Args)]
pub(crate) struct CreateArgs {
    /// Name; default: the name in the file
    #[arg(required_unless_present = "file")]
    name: Option<String>,
    /// YAML or JSON file with the fields of one job, in the form of `jobs edit`; `-` for standard
    /// input; flags override it
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Task function of the job
    #[arg(long, value_name = "NAME", required_unless_present = "file")]
    function: Option<String>,
    #[command(flatten)]
    schedule: ScheduleArgs,
    /// IANA time zone of the schedule; default: that of the API
    #[arg(long, value_name = "ZONE")]
    timezone: Option<String>,
    /// Arguments of every run, as a JSON object
    #[arg(long, value_name = "JSON", value_parser = object)]
    args: Option<Value>,
    /// Description
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// Project (default `default`)
    #[arg(long, value_name = "NAME")]
    project: Option<String>,
    /// Queue of its runs; default: that of the function
    #[arg(long, value_name = "NAME")]
    queue: Option<String>,
    /// Priority of its runs, 0 first to 100 last; default: that of the queue
    #[arg(long, value_name = "PRIORITY", value_parser = within(0_i16, 100), allow_negative_numbers = true)]
    priority: Option<i16>,
    /// Timeout of an attempt, such as `5min`; default: that of the function
    #[arg(long, value_name = "DURATION", value_parser = seconds)]
    timeout: Option<i32>,
    /// Number of attempts, 1 for no retry; default: that of the function
    #[arg(long, value_name = "COUNT", value_parser = whole::<u32>)]
    max_attempts: Option<u32>,
    /// Create the job disabled
    #[arg(long)]
    disabled: bool,
}

/// The schedule; without these flags the job is only triggered.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("schedule"))]
struct ScheduleArgs {
    /// Crontab expression or nickname, such as `0 9 * * MON-FRI`
    #[arg(long, value_name = "EXPR", group = "schedule", allow_hyphen_values = true)]
    cron: Option<String>,
    /// Interval between fires, such as `90m`; days and weeks keep the wall-clock time
    #[arg(long, value_name = "DURATION", group = "schedule", value_parser = period, allow_hyphen_values = true)]
    interval: Option<Value>,
    /// Instant of a one-off fire: RFC 3339, a wall-clock time in --timezone such as `2030-01-31
    /// 09:00`, or a distance from now such as +10m or +2h30m
    #[arg(long, value_name = "TIME", group = "schedule", value_parser = moment)]
    at: Option<Moment>,
    /// `schedule_config`, as a JSON object
    #[arg(long, value_name = "JSON", group = "schedule", value_parser = object)]
    config: Option<Value>,
    /// Crontab expressions have six fields, with the second first
    #[arg(long, requires = "cron")]
    seconds: bool,
    /// Days that match if both day fields are restricted: either or both; default: both if one of
    /// them starts with `*`, else either
    #[arg(long, value_name = "CHOICE", requires = "cron")]
    day_match: Option<DayMatch>,
    /// Kind of schedule: cron, interval, oneoff or manual; default: determined from the flag or the
    /// keys of --config
    #[arg(long = "type", value_name = "TYPE", id = "job_type")]
    job_type: Option<JobType>,
}

impl ScheduleArgs {
    /// Fails if `--type` contradicts the flag of the schedule.
    fn chosen(self, at: Option<DateTime<Utc>>) -> Result<Option<(JobType, Value)>, String> {
        let Self { cron, interval, at: _, config, seconds, day_match, job_type } = self;
        let cron = cron.map(|expression| (JobType::Cron, cron_config(&expression, seconds, day_match)));
        let interval = interval.map(|period| (JobType::Interval, period));
        let once = at
            .map(|at| (JobType::OneOff, json!({"run_at": at.to_rfc3339_opts(SecondsFormat::AutoSi, true)})));
        let config = config.map(|config| (job_type.unwrap_or_else(|| kind(&config)), config));
        let described = cron.or(interval).or(once).or(config);
        match (job_type, described) {
            (Some(JobType::Manual), None) => Ok(Some((JobType::Manual, json!({})))),
            (Some(job_type), None) => Err(format!(
                "--type {}: set the schedule with --cron, --interval, --at or --config",
                job_type.as_str()
            )),
            (Some(job_type), Some((described, _))) if described != job_type => Err(format!(
                "--type {}: the other flags set a schedule of the type {}; remove --type",
                job_type.as_str(),
                described.as_str()
            )),
            (_, described) => Ok(described),
        }
    }
}

impl CreateArgs {
    /// The clock is read only for a relative instant.
    async fn spec(
        self,
        now: impl AsyncFnOnce() -> Result<DateTime<Utc>, ExitError>,
    ) -> Result<(JobSpec, Single), ExitError> {
        let mut draft = Draft::read(self.file.as_deref())?;
        let zone = self.timezone.as_deref().or_else(|| draft.get("timezone").and_then(Value::as_str));
        let now = match self.schedule.at {
            Some(Moment::Distance(_)) => now().await?,
            Some(Moment::At(_) | Moment::OnClock(_)) | None => DateTime::UNIX_EPOCH,
        };
        let at = self.schedule.at.map(|at| instant_of(at, zone, now)).transpose();
        let at = at.map_err(|message| usage(anyhow!(message)))?;
        draft.set("name", self.name);
        draft.set("function", self.function);
        let chosen = self.schedule.chosen(at).map_err(|message| usage(anyhow!(message)))?;
        if let Some((job_type, config)) = chosen {
            draft.set("job_type", Some(job_type.as_str()));
            draft.set("schedule_config", Some(config));
        }
        // The keys of a schedule determine its kind, as with --config.
        let job_type = draft.get("schedule_config").map_or(JobType::Manual, kind);
        draft.set_default("job_type", job_type.as_str());
        draft.set("timezone", self.timezone);
        draft.set("task_args", self.args);
        draft.set("description", self.description);
        draft.set("project", self.project);
        draft.set("queue", self.queue);
        draft.set("priority", self.priority);
        draft.set("timeout_seconds", self.timeout);
        draft.set_in("retry_policy", "max_attempts", self.max_attempts);
        draft.set("is_enabled", self.disabled.then_some(false));
        draft.done("job")
    }
}

pub(super) async fn run(args: CreateArgs, session: &Session) -> CommandResult {
    let api = session.api()?;
    let now = async || Ok(api.get::<Status>(&["status"], &()).await?.now);
    let (spec, file) = args.spec(now).await?;
    let made = api.post(&["jobs"], None, &spec).await;
    let job: Job = match made {
        Ok(job) => job,
        Err(error) => return Err(placed(suggest::in_error(&api, error).await, &file)),
    };
    session.output.row(&job, LIST)?;
    if job.is_enabled
        && let Some(note) =
            past::note(&job.schedule_config, job.misfire_policy, job.misfire_grace_seconds, job.created_at)
    {
        print_notice(&format!("note: {note}"));
    }
    queues::warn_unserved(&api, queue_of(&api, &job).await).await;
    Ok(exit::OK)
}

async fn queue_of(api: &Api, job: &Job) -> Option<String> {
    if job.queue.is_some() {
        return job.queue.clone();
    }
    let function = api.get::<Function>(&["functions", &job.function], &()).await;
    function.ok().map(|function| function.queue)
}
