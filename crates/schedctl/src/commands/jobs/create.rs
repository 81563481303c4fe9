//! `jobs create`: making a job from flags, from a file, or from both.
//!
//! A job of that name that is there already is refused by the API, so nothing is written over. Many things at once, and things that may be there,
//! are for `jobs apply`.

use std::path::PathBuf;

use anyhow::anyhow;
use chrono::{DateTime, SecondsFormat, Utc};
use clap::Args;
use sched_model::domain::time_expression::Moment;
use sched_model::domain::timetable::JobType;
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
use crate::output::tell;
use crate::values::{instant_of, moment, seconds, whole, within};

/// What to make.
#[derive(Debug, Args)]
pub(crate) struct CreateArgs {
    /// Its name; without it the one in the file
    #[arg(required_unless_present = "file")]
    name: Option<String>,
    /// YAML or JSON file with the fields of one job, as `jobs edit` shows them; `-` for standard input; what flags say stands over it
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// The task function that it runs
    #[arg(long, value_name = "NAME", required_unless_present = "file")]
    function: Option<String>,
    #[command(flatten)]
    schedule: ScheduleArgs,
    /// Time zone of the schedule by its IANA name; the API's without it
    #[arg(long, value_name = "ZONE")]
    timezone: Option<String>,
    /// Arguments of every run, a JSON object
    #[arg(long, value_name = "JSON", value_parser = object)]
    args: Option<Value>,
    /// What it is for
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// Its project; `default` without it
    #[arg(long, value_name = "NAME")]
    project: Option<String>,
    /// Queue of its runs; the function's without it
    #[arg(long, value_name = "NAME")]
    queue: Option<String>,
    /// Priority of its runs, 0 runs first, 100 last; the queue's without it
    #[arg(long, value_name = "PRIORITY", value_parser = within(0_i16, 100), allow_negative_numbers = true)]
    priority: Option<i16>,
    /// Longest run of an attempt, such as `5min`; the function's without it
    #[arg(long, value_name = "DURATION", value_parser = seconds)]
    timeout: Option<i32>,
    /// Attempts in all, 1 for no retry; those of the function's policy without it
    #[arg(long, value_name = "COUNT", value_parser = whole::<u32>)]
    max_attempts: Option<u32>,
    /// Make it disabled: its schedule does not fire until it is enabled
    #[arg(long)]
    disabled: bool,
}

/// When it is to fire; by triggers alone without any of these.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("schedule"))]
struct ScheduleArgs {
    /// Crontab expression or nickname, such as `0 9 * * MON-FRI`
    #[arg(long, value_name = "EXPR", group = "schedule", allow_hyphen_values = true)]
    cron: Option<String>,
    /// Distance between fires, such as `90m`; days and weeks keep the time on the clock
    #[arg(long, value_name = "DURATION", group = "schedule", value_parser = period, allow_hyphen_values = true)]
    interval: Option<Value>,
    /// The one instant at which it fires: RFC 3339, a time on the clock of --timezone such as `2030-01-31 09:00`, or a distance from now such
    /// as +10m or +2h30m
    #[arg(long, value_name = "TIME", group = "schedule", value_parser = moment)]
    at: Option<Moment>,
    /// `schedule_config` of the job, a JSON object
    #[arg(long, value_name = "JSON", group = "schedule", value_parser = object)]
    config: Option<Value>,
    /// Crontab expressions begin with a field for the second: six fields in all
    #[arg(long, requires = "cron")]
    seconds: bool,
    /// Kind of schedule: cron, interval, oneoff or manual; without it the flag or the keys of --config tell
    #[arg(long = "type", value_name = "TYPE", id = "job_type")]
    job_type: Option<JobType>,
}

impl ScheduleArgs {
    /// The kind of schedule and what it holds, if a flag says so.
    ///
    /// # Errors
    /// When --type and the flag that describes the schedule do not fit.
    fn chosen(self, at: Option<DateTime<Utc>>) -> Result<Option<(JobType, Value)>, String> {
        let Self { cron, interval, at: _, config, seconds, job_type } = self;
        let cron = cron.map(|expression| (JobType::Cron, cron_config(&expression, seconds)));
        let interval = interval.map(|period| (JobType::Interval, period));
        let once = at
            .map(|at| (JobType::OneOff, json!({"run_at": at.to_rfc3339_opts(SecondsFormat::AutoSi, true)})));
        let config = config.map(|config| (job_type.unwrap_or_else(|| kind(&config)), config));
        let described = cron.or(interval).or(once).or(config);
        match (job_type, described) {
            (Some(JobType::Manual), None) => Ok(Some((JobType::Manual, json!({})))),
            (Some(job_type), None) => Err(format!(
                "--type {}: say when it is to fire, with --cron, --interval, --at or --config",
                job_type.as_str()
            )),
            (Some(job_type), Some((described, _))) if described != job_type => Err(format!(
                "--type {}: the other flags describe a schedule of the type {}; leave --type out",
                job_type.as_str(),
                described.as_str()
            )),
            (_, described) => Ok(described),
        }
    }
}

impl CreateArgs {
    /// The job; `now` is asked for where the instant is a distance from it.
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
        // As with --config, the keys of a schedule in the file tell its kind.
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
        tell(&format!("note: {note}"));
    }
    queues::tell_of_unserved(&api, queue_of(&api, &job).await).await;
    Ok(exit::OK)
}

/// The queue in which runs of the job wait, as far as it can be read.
async fn queue_of(api: &Api, job: &Job) -> Option<String> {
    if job.queue.is_some() {
        return job.queue.clone();
    }
    let function = api.get::<Function>(&["task-functions", &job.function], &()).await;
    function.ok().map(|function| function.queue)
}
