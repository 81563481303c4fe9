//! The command line of `schedules`. The domain crate validates schedules. Pure.

use chrono::{DateTime, SecondsFormat, Utc};
use clap::{Args, Subcommand};
use sched_model::domain::time_expression::Moment;
use sched_model::domain::timetable::{DayMatch, DstGap, DstOverlap, JobType, MAX_FIRE_TIMES};
use serde_json::{Value, json};

use super::question::{Mistake, Names, Question, Settings, cron_config};
use super::simulate::SimulateArgs;
use crate::values::{instant, instant_of, moment, within};

const DEFAULT_COUNT: usize = 5;

#[derive(Debug, Subcommand)]
pub(crate) enum SchedulesCommand {
    /// Show the fire times of a schedule, the schedule in words, and possible surprises; needs no
    /// API
    Preview(PreviewArgs),
    /// Simulate all jobs of files over a window: load, peaks, overlaps; needs no API
    Simulate(SimulateArgs),
}

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("schedule").required(true))]
pub(crate) struct PreviewArgs {
    /// Crontab expression or nickname, such as `0 9 * * MON-FRI`
    #[arg(long, value_name = "EXPR", group = "schedule", allow_hyphen_values = true)]
    cron: Option<String>,
    /// Interval between fires, counted from --after, such as `90m`; days and weeks keep the
    /// wall-clock time
    #[arg(long, value_name = "DURATION", group = "schedule", value_parser = period, allow_hyphen_values = true)]
    interval: Option<Value>,
    /// Instant of a one-off: RFC 3339, a wall-clock time in --timezone, or a distance from now such
    /// as +2h30m
    #[arg(long, value_name = "TIME", group = "schedule", value_parser = moment)]
    at: Option<Moment>,
    /// `schedule_config` of a job, as a JSON object
    #[arg(long, value_name = "JSON", group = "schedule", value_parser = json_value)]
    config: Option<Value>,
    /// Read a JSON object from each line, {"expr","tz","after","count"}, and answer each with one;
    /// all keys but `expr` default to the flags
    #[arg(long, group = "schedule")]
    pub(super) stdin: bool,
    /// Crontab expressions have six fields, with the second first
    #[arg(long, conflicts_with_all = ["interval", "at", "config"])]
    seconds: bool,
    /// Days that match if both day fields are restricted: either or both; default: both if one of
    /// them starts with `*`, else either
    #[arg(long, value_name = "CHOICE", conflicts_with_all = ["interval", "at", "config"])]
    day_match: Option<DayMatch>,
    /// Name of the planned job, which determines the value of `H` in a crontab expression
    #[arg(long, value_name = "NAME")]
    job: Option<String>,
    /// Kind of schedule of --config: cron, interval, oneoff or manual; default: determined from its
    /// keys
    #[arg(long = "type", value_name = "TYPE", id = "job_type", requires = "config", conflicts_with_all = ["cron", "interval", "at", "stdin"])]
    job_type: Option<JobType>,
    /// IANA time zone
    #[arg(long, value_name = "ZONE", default_value = "UTC")]
    timezone: String,
    /// Show fire times after this instant (RFC 3339); default: now, by the clock of this machine
    #[arg(long, value_name = "INSTANT", value_parser = instant)]
    after: Option<DateTime<Utc>>,
    /// Number of fire times, at most 10000
    #[arg(long, value_name = "COUNT", default_value_t = DEFAULT_COUNT, value_parser = within(1, MAX_FIRE_TIMES))]
    count: usize,
    /// Rule for wall-clock times that do not exist: shift or skip; default: that of the schedule
    #[arg(long, value_name = "CHOICE")]
    dst_gap: Option<DstGap>,
    /// Rule for wall-clock times that occur twice: first, second or both; default: that of the
    /// schedule
    #[arg(long, value_name = "CHOICE")]
    dst_overlap: Option<DstOverlap>,
}

impl PreviewArgs {
    pub(super) fn settings(&self, now: DateTime<Utc>) -> Settings {
        Settings {
            timezone: self.timezone.clone(),
            after: self.after.unwrap_or(now),
            count: self.count,
            dst_gap: self.dst_gap,
            dst_overlap: self.dst_overlap,
            seconds: self.seconds,
            day_match: self.day_match,
            job: self.job.clone(),
        }
    }

    /// Fails without a schedule, which the group of flags prevents.
    pub(super) fn question(&self, now: DateTime<Utc>) -> Result<Question, Mistake> {
        let names = |schedule| Names { schedule, timezone: "--timezone" };
        let (job_type, config, names) = if let Some(expression) = &self.cron {
            (JobType::Cron, cron_config(expression, self.seconds, self.day_match), names("--cron"))
        } else if let Some(period) = &self.interval {
            (JobType::Interval, period.clone(), names("--interval"))
        } else if let Some(at) = self.at {
            let at =
                instant_of(at, Some(&self.timezone), now).map_err(|message| Mistake::from_text(&message))?;
            (
                JobType::OneOff,
                json!({ "run_at": at.to_rfc3339_opts(SecondsFormat::AutoSi, true) }),
                names("--at"),
            )
        } else if let Some(config) = &self.config {
            (self.job_type.unwrap_or_else(|| kind(config)), config.clone(), names("--config"))
        } else {
            return Err(Mistake::new("--cron", "is missing; give one schedule"));
        };
        Ok(Question { job_type, config, settings: self.settings(now), names })
    }
}

/// The kind with the keys of a `schedule_config`; of several schedules the first. Without a known
/// key it counts as an interval, whose error lists the allowed keys.
pub(in crate::commands) fn kind(config: &Value) -> JobType {
    let config = config.pointer("/any_of/0").unwrap_or(config);
    let has = |key: &str| config.get(key).is_some();
    if ["expression", "second", "minute", "hour", "day", "month", "day_of_week", "day_match"]
        .into_iter()
        .any(has)
    {
        JobType::Cron
    } else if has("run_at") {
        JobType::OneOff
    } else if config.as_object().is_some_and(serde_json::Map::is_empty) {
        JobType::Manual
    } else {
        JobType::Interval
    }
}

fn json_value(text: &str) -> Result<Value, serde_json::Error> {
    serde_json::from_str(text)
}

/// Days and weeks alone are calendar time, everything else is elapsed time.
pub(in crate::commands) fn period(text: &str) -> Result<Value, String> {
    let duration = humantime::parse_duration(text)
        .map_err(|error| format!("{error}; write a duration such as `90m`, `1h 30m` or `2d`"))?;
    if duration.subsec_nanos() != 0 {
        return Err("is not a whole number of seconds".to_owned());
    }
    let units: Vec<&str> = text.split(|c: char| !c.is_alphabetic()).filter(|unit| !unit.is_empty()).collect();
    if units.iter().any(|unit| matches!(*unit, "M") || unit.starts_with("month") || unit.starts_with('y')) {
        return Err("months and years differ in length; use --cron, or days".to_owned());
    }
    let calendar = units.iter().all(|unit| unit.starts_with('d') || unit.starts_with('w'));
    Ok(if calendar {
        json!({"days": duration.as_secs() / 86_400})
    } else {
        json!({"seconds": duration.as_secs()})
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct TestCli {
        #[command(subcommand)]
        command: SchedulesCommand,
    }

    fn parse(args: &[&str]) -> Result<PreviewArgs, clap::Error> {
        let line = TestCli::try_parse_from([&["schedctl", "preview"], args].concat())?;
        let SchedulesCommand::Preview(args) = line.command else { panic!("not a preview") };
        Ok(args)
    }

    fn question_of(args: &[&str]) -> Question {
        let now = instant("2026-03-26T12:00:00Z").unwrap();
        parse(args).unwrap().question(now).unwrap()
    }

    #[test]
    fn every_kind_of_schedule_has_a_flag() {
        for (args, sentence) in [
            (&["--cron", "0 0 * * MON-FRI"][..], "At 00:00, Monday to Friday."),
            (&["--interval", "90m"], "Every 90 minutes, counted from 2026-03-26T12:00:00Z."),
            (&["--interval", "1h 30m"], "Every 90 minutes, counted from 2026-03-26T12:00:00Z."),
            (&["--interval", "24h"], "Every 24 hours, counted from 2026-03-26T12:00:00Z."),
            (
                &["--interval", "2w 1d", "--timezone", "Europe/Berlin"],
                "Every 15 days, counted from 2026-03-26T13:00:00+01:00.",
            ),
            (&["--at", "2030-01-31T10:00:00+01:00"], "Once, at 2030-01-31T09:00:00Z."),
            (&["--at", "2030-01-31 10:00", "--timezone", "Europe/Berlin"], "Once, at 2030-01-31T09:00:00Z."),
            (&["--at", "+2h30m"], "Once, at 2026-03-26T14:30:00Z."),
            (&["--config", r#"{"hour": 9}"#, "--type", "cron"], "At 09:00 every day."),
            (&["--cron", "0 0 13 * FRI"], "At 00:00 on day 13 of the month or on Friday."),
            (
                &["--cron", "0 0 13 * FRI", "--day-match", "both"],
                "At 00:00 on day 13 of the month if the day is a Friday.",
            ),
            (
                &["--config", r#"{"day": 13, "day_of_week": "fri"}"#],
                "At 00:00 on day 13 of the month if the day is a Friday.",
            ),
            (&["--config", "{}", "--type", "manual"], "Only when triggered."),
            (&["--config", r#"{"expression": "0 9 * * *"}"#], "At 09:00 every day."),
            (&["--config", r#"{"hour": 9}"#], "At 09:00 every day."),
            (
                &["--config", r#"{"any_of": [{"expression": "0 9 * * *"}, {"expression": "0 12 * * SAT"}]}"#],
                "At 09:00 every day. Also: At 12:00 on Saturday.",
            ),
            (
                &["--config", r#"{"seconds": 30, "minutes": 1}"#],
                "Every 90 seconds, counted from 2026-03-26T12:00:00Z.",
            ),
            (&["--config", r#"{"run_at": "2030-01-31T10:00:00+01:00"}"#], "Once, at 2030-01-31T09:00:00Z."),
            (&["--config", "{}"], "Only when triggered."),
        ] {
            assert_eq!(question_of(args).answer().unwrap().description, sentence, "{args:?}");
        }
    }

    #[test]
    fn settings_reach_the_schedule() {
        let args = ["--cron", "30 2 * * *", "--timezone", "europe/berlin", "--count", "1"];
        let first = |more: &[&str]| {
            let preview = question_of(&[&args, more].concat()).answer().unwrap();
            preview.fire_times.first().unwrap().utc.to_rfc3339_opts(SecondsFormat::Secs, true)
        };
        assert_eq!(first(&[]), "2026-03-27T01:30:00Z");
        assert_eq!(first(&["--after", "2026-03-28T12:00:00Z"]), "2026-03-29T01:00:00Z");
        assert_eq!(first(&["--after", "2026-03-28T12:00:00Z", "--dst-gap", "skip"]), "2026-03-30T00:30:00Z");
        assert_eq!(
            first(&["--after", "2026-10-24T12:00:00Z", "--dst-overlap", "second"]),
            "2026-10-25T01:30:00Z"
        );
    }

    #[test]
    fn seconds_are_part_of_a_crontab_schedule() {
        let question = question_of(&["--cron", "0 * * * * *", "--seconds"]);
        assert_eq!(question.config, json!({"expression": "0 * * * * *", "seconds": true}));
        assert!(parse(&["--stdin", "--seconds"]).unwrap().settings(question.settings.after).seconds);
        assert_eq!(question_of(&["--cron", "* * * * *"]).config, json!({"expression": "* * * * *"}));
    }

    #[test]
    fn a_bad_flag_is_named() {
        for (args, flag) in [
            (&[][..], "--cron"),
            (&["--cron", "* * * * *", "--interval", "1h"], "--interval"),
            (&["--cron", "* * * * *", "--type", "cron"], "--type"),
            (&["--config", "{", "--type", "cron"], "--config"),
            (&["--config", "{}", "--type", "weekly"], "--type"),
            (&["--interval", "soon"], "--interval"),
            (&["--interval", "1500ms"], "--interval"),
            (&["--interval", "1month"], "--interval"),
            (&["--interval", "2 years"], "--interval"),
            (&["--at", "tomorrow"], "--at"),
            (&["--cron", "* * * * *", "--after", "2026-03-26"], "--after"),
            (&["--cron", "* * * * *", "--count", "0"], "--count"),
            (&["--cron", "* * * * *", "--count", "10001"], "--count"),
            (&["--interval", "1h", "--seconds"], "--seconds"),
            (&["--cron", "* * * * *", "--dst-gap", "both"], "--dst-gap"),
            (&["--cron", "* * * * *", "--day-match", "all"], "--day-match"),
            (&["--interval", "1h", "--day-match", "both"], "--day-match"),
            (&["--cron", "* * * * *", "--dst-overlap", "shift"], "--dst-overlap"),
        ] {
            let error = parse(args).unwrap_err();
            assert!(error.to_string().contains(flag), "{args:?}: {error}");
        }
    }

    #[test]
    fn a_bad_schedule_names_the_flag_and_the_field() {
        let long = "1,".repeat(5000);
        for (args, start) in [
            (&["--cron", "0 0 31 2 *"][..], "--cron (expression): `0 0 31 2 *` never fires"),
            (&["--cron", "60 * * * *"], "--cron (minute): `60` is not a value of this field"),
            (&["--cron", "* * * *"], "--cron (expression): `* * * *` has 4 fields"),
            (&["--cron", "0 0 * * 8"], "--cron (day_of_week): `8` is not a value"),
            (&["--cron", ""], "--cron (expression): is empty"),
            (
                &["--cron", "0 * * * * *"],
                "--cron (expression): `0 * * * * *` has 6 fields; exactly five are needed: minute hour day month day_of_week; for six, the first being the second, give --seconds",
            ),
            (&["--cron", &long], "--cron (expression): is 10000 bytes long"),
            (&["--cron", "- * * * *"], "--cron (minute): `-` has"),
            (
                &["--cron", "* * * * *", "--timezone", "Mars/Base"],
                "--timezone: `Mars/Base` is not a time zone",
            ),
            (&["--cron", "* * * * *", "--timezone", ""], "--timezone: `` is not a time zone"),
            (&["--interval", "0s"], "--interval: adds up to 0 seconds"),
            (&["--interval", "99999d"], "--interval: adds up to"),
            (&["--interval", "9999999999s"], "--interval (seconds): is not a whole number"),
            (&["--config", "[]", "--type", "cron"], "--config: is not an object"),
            (
                &["--config", r#"{"hous": 1}"#],
                "--config: `hous` is not a field of this kind of schedule; allowed are weeks",
            ),
            (&["--config", "7"], "--config: is not an object"),
            (&["--config", r#"{"minute": 60}"#, "--type", "cron"], "--config (minute): `60` is not a value"),
            (
                &["--config", r#"{"expression": "x"}"#, "--type", "cron"],
                "--config (expression): `x` has 1 field",
            ),
        ] {
            let mistake = question_of(args).answer().unwrap_err().to_string();
            assert!(mistake.starts_with(start), "{mistake}");
        }
    }
}
