//! The command line of `schedules simulate`. Pure.

use std::path::PathBuf;

use chrono::{DateTime, DurationRound as _, TimeDelta, Utc};
use clap::{ArgAction, Args};

use crate::values::{instant, within};

const DEFAULT_PEAKS: usize = 10;
const MOST_PEAKS: usize = 100;

#[derive(Debug, Args)]
pub(crate) struct SimulateArgs {
    /// YAML or JSON file with jobs, `-` for standard input; may be repeated
    #[arg(short, long = "file", value_name = "FILE", required = true, action = ArgAction::Append)]
    pub(super) file: Vec<PathBuf>,
    /// Start at this instant (RFC 3339); default: the current minute of this machine
    #[arg(long, value_name = "INSTANT", value_parser = instant)]
    from: Option<DateTime<Utc>>,
    /// End before this instant (RFC 3339), at most 366 days later; default: a day after --from
    #[arg(long, value_name = "INSTANT", value_parser = instant)]
    to: Option<DateTime<Utc>>,
    /// IANA time zone of jobs without one
    #[arg(long, value_name = "ZONE", default_value = "UTC")]
    pub(super) timezone: String,
    /// Read the durations of jobs without `expected_duration_seconds` from the API: the median of their
    /// latest successful attempts
    #[arg(long)]
    pub(super) measured: bool,
    /// Number of busiest minutes to show, at most 100
    #[arg(long, value_name = "COUNT", default_value_t = DEFAULT_PEAKS, value_parser = within(1, MOST_PEAKS))]
    pub(super) peaks: usize,
}

impl SimulateArgs {
    /// Start (inclusive) and end (exclusive).
    pub(super) fn window(&self, now: DateTime<Utc>) -> (DateTime<Utc>, DateTime<Utc>) {
        let minute = now.duration_trunc(TimeDelta::minutes(1)).unwrap_or(now);
        let from = self.from.unwrap_or(minute);
        (from, self.to.or(from.checked_add_signed(TimeDelta::days(1))).unwrap_or(from))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct TestCli {
        #[command(flatten)]
        args: SimulateArgs,
    }

    fn window(args: &[&str]) -> (DateTime<Utc>, DateTime<Utc>) {
        let line = TestCli::try_parse_from([&["simulate", "-f", "jobs.yaml"], args].concat()).unwrap();
        line.args.window(instant("2026-03-26T12:34:56.7Z").unwrap())
    }

    #[test]
    fn what_is_not_said_is_a_day_from_the_present_minute() {
        let day = TimeDelta::days(1);
        let now = instant("2026-03-26T12:34:00Z").unwrap();
        assert_eq!(window(&[]), (now, now + day));
        let from = instant("2026-03-01T00:00:30Z").unwrap();
        assert_eq!(window(&["--from", "2026-03-01T01:00:30+01:00"]), (from, from + day));
        assert_eq!(window(&["--to", "2026-03-01T00:00:30Z"]), (now, from));
    }

    #[test]
    fn a_bad_flag_is_named() {
        for (args, flag) in [
            (&[][..], "--file"),
            (&["-f", "a", "--from", "today"], "--from"),
            (&["-f", "a", "--to", "2026-03-01"], "--to"),
            (&["-f", "a", "--peaks", "0"], "--peaks"),
            (&["-f", "a", "--peaks", "101"], "--peaks"),
        ] {
            let error = TestCli::try_parse_from([&["simulate"], args].concat()).unwrap_err();
            assert!(error.to_string().contains(flag), "{args:?}: {error}");
        }
    }
}
