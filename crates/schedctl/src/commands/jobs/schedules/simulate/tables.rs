//! Tables of a simulation. Omitted rows are counted; `-o json` has all of them.

use std::cmp::Reverse;

use chrono::{DateTime, TimeDelta, Utc};
use sched_runtime::exit::ExitError;

use super::shown::{Advice, Herd, Job, Shown, Starts, Stretch};
use crate::output::{Column, Output, duration, neutral, or_dash, print_notice, time};

const ROWS: usize = 10;
const NAMES: usize = 4;
const MOST_HOURS: usize = 49;
const BAR: u64 = 40;

#[derive(Debug, serde::Serialize)]
struct ChartRow {
    stretch: Stretch,
    bar: String,
}

const CHART: &[Column<ChartRow>] = &[
    Column::new("FROM", |line| time(line.stretch.at)),
    Column::new("STARTS", |line| line.stretch.starts.to_string()),
    Column::new("BUSIEST MINUTE", |line| or_dash(line.stretch.busiest_minute.map(minute))),
    Column::new("RUNNING", |line| line.stretch.most_running.to_string()),
    Column::new("", |line| line.bar.clone()),
];

const PEAKS: &[Column<Herd>] = &[
    Column::new("MINUTE", |herd| time(herd.minute)),
    Column::new("STARTS", |herd| herd.starts.to_string()),
    Column::new("IN ONE SECOND", |herd| herd.most_in_a_second.to_string()),
    Column::new("JOBS", |herd| herd.jobs.len().to_string()),
    Column::new("NAMES", names),
];

const JOBS: &[Column<Job>] = &[
    Column::new("NAME", |job| job.name.clone()),
    Column::new("STARTS", |job| job.starts.to_string()),
    Column::new("EACH TAKES", |job| or_dash(job.expected_duration_seconds.map(seconds))),
    Column::new("ALL TAKE", |job| or_dash(job.expected_duration_seconds.map(|_| seconds(job.busy_seconds)))),
    Column::new("AT ONCE", |job| or_dash(job.expected_duration_seconds.map(|_| job.most_running))),
];

const OVERLAPS: &[Column<Job>] = &[
    Column::new("NAME", |job| job.name.clone()),
    Column::new("STARTS", |job| job.starts.to_string()),
    Column::new("OVERLAPPING", |job| job.overlapping.to_string()),
    Column::new("SKIPPED", |job| job.skipped.to_string()),
    Column::new("QUEUED", |job| job.queued.to_string()),
    Column::new("CANCELLED", |job| job.cancelled.to_string()),
];

const SUGGESTIONS: &[Column<Advice>] = &[
    Column::new("JOB", |advice| advice.job.clone()),
    Column::new("CHANGE", |advice| {
        let value =
            advice.value.as_str().map_or_else(|| advice.value.to_string(), |text| format!("\"{text}\""));
        format!("{}: {value}", advice.field)
    }),
    Column::new("MEETS", |advice| format!("{:.1}", advice.company_before)),
    Column::new("WOULD MEET", |advice| format!("{:.1}", advice.company_after)),
];

pub(super) fn print(shown: &Shown, output: Output) -> Result<(), ExitError> {
    output.print(&format!(
        "{} from {} to {}: {}; left out: {} manual, {} disabled\n",
        counted(shown.jobs, "job"),
        time(shown.from),
        time(shown.to),
        counted(shown.starts, "start"),
        shown.manual_jobs,
        shown.disabled_jobs,
    ))?;
    if shown.starts == 0 {
        return Ok(());
    }
    output.print("\n")?;
    let (rows, quiet) = chart(&shown.hours);
    output.list(&rows, CHART, "")?;
    if quiet > 0 {
        print_notice(&format!("{} without a start are not shown", counted(quiet, "line")));
    }
    if let Some(second) = shown.busiest_second {
        let line = format!(
            "Peaks: the busiest second is {} with {}",
            time(second.at),
            counted(second.starts, "start")
        );
        output.print(&format!("\n{line}\n"))?;
    }
    output.list(&shown.peaks, PEAKS, "")?;
    output.print("\nBusiest jobs\n")?;
    list(&shown.starts_per_job, JOBS, "jobs", output)?;
    overlaps(shown, output)?;
    suggestions(shown, output)
}

fn overlaps(shown: &Shown, output: Output) -> Result<(), ExitError> {
    let found = &shown.overlaps;
    let running = match found.since {
        Some(since) => format!(
            "at most {} at once, first at {}; workers need as many slots; {} on average",
            counted(found.most_running, "run"),
            time(since),
            found.mean_running
        ),
        None => "no run takes time".to_owned(),
    };
    output.print(&format!("\nOverlaps: {running}\n"))?;
    let mut own: Vec<&Job> = shown.starts_per_job.iter().filter(|job| job.overlapping > 0).collect();
    own.sort_by_key(|job| Reverse(job.overlapping));
    let rows: Vec<Job> = own.iter().take(ROWS).map(|job| Job { name: job.name.clone(), ..**job }).collect();
    if !rows.is_empty() {
        output.list(&rows, OVERLAPS, "")?;
        print_rest(own.len(), "jobs that overlap themselves");
    }
    if found.starts_of_unknown_duration > 0 {
        print_notice(&format!(
            "{} with {} declare no expected_duration_seconds and take no time here; --measured takes the durations of their attempts",
            counted(found.jobs_of_unknown_duration.len(), "job"),
            counted(found.starts_of_unknown_duration, "start"),
        ));
    }
    Ok(())
}

fn suggestions(shown: &Shown, output: Output) -> Result<(), ExitError> {
    let (Some(now), Some(then)) = (shown.peak, shown.predicted_peak) else { return Ok(()) };
    if shown.suggestions.is_empty() {
        return output.print("\nSuggested spread: none would lower the peaks noticeably\n");
    }
    output.print(&format!(
        "\nSuggested spread, unless these times are meant: the busiest minute would have {} instead of {}\n",
        counted(then.starts, "start"),
        now.starts
    ))?;
    list(&shown.suggestions, SUGGESTIONS, "suggestions", output)
}

fn list<T: serde::Serialize>(
    items: &[T],
    columns: &[Column<T>],
    what: &str,
    output: Output,
) -> Result<(), ExitError> {
    output.list(items.get(..ROWS).unwrap_or(items), columns, "")?;
    print_rest(items.len(), what);
    Ok(())
}

fn print_rest(count: usize, what: &str) {
    if count > ROWS {
        print_notice(&format!("{ROWS} of {count} {what} are shown; see all with -o json"));
    }
}

/// Without stretches in which nothing starts or runs, and their number.
fn chart(hours: &[Stretch]) -> (Vec<ChartRow>, usize) {
    let stretches = if hours.len() <= MOST_HOURS { hours.to_vec() } else { days(hours) };
    let most = stretches.iter().map(|stretch| stretch.starts).max().unwrap_or(0).max(1);
    let bar = |starts: u64| {
        // A bar is empty only without starts.
        let length = starts.saturating_mul(BAR).div_ceil(most);
        "#".repeat(usize::try_from(length).unwrap_or(0))
    };
    let count = stretches.len();
    let busy = stretches.into_iter().filter(|stretch| stretch.starts > 0 || stretch.most_running > 0);
    let rows: Vec<ChartRow> = busy.map(|stretch| ChartRow { stretch, bar: bar(stretch.starts) }).collect();
    let quiet = count - rows.len();
    (rows, quiet)
}

fn days(hours: &[Stretch]) -> Vec<Stretch> {
    let same_day = |left: &Stretch, right: &Stretch| left.at.date_naive() == right.at.date_naive();
    let busier = |busiest: Option<Starts>, other: Option<Starts>| match (busiest, other) {
        (Some(busiest), Some(other)) if other.starts > busiest.starts => Some(other),
        (busiest, other) => busiest.or(other),
    };
    let day = |hours: &[Stretch]| {
        hours.iter().copied().reduce(|day, hour| Stretch {
            at: day.at,
            starts: day.starts + hour.starts,
            busiest_minute: busier(day.busiest_minute, hour.busiest_minute),
            most_running: day.most_running.max(hour.most_running),
        })
    };
    hours.chunk_by(same_day).filter_map(day).collect()
}

fn minute(minute: Starts) -> String {
    let clock = |at: DateTime<Utc>| at.format("%H:%M").to_string();
    format!("{} ({})", clock(minute.at), minute.starts)
}

fn names(herd: &Herd) -> String {
    let mut names: Vec<String> =
        herd.jobs.iter().take(NAMES).map(|member| neutral::line(&member.name).into_owned()).collect();
    match herd.jobs.len().saturating_sub(NAMES) {
        0 => {}
        more => names.push(format!("and {more} more")),
    }
    names.join(", ")
}

fn seconds(seconds: impl TryInto<i64>) -> String {
    let seconds: i64 = seconds.try_into().unwrap_or(i64::MAX);
    duration(TimeDelta::try_seconds(seconds).unwrap_or(TimeDelta::MAX).num_milliseconds())
}

fn counted(count: impl TryInto<u64> + Copy, what: &str) -> String {
    match count.try_into() {
        Ok(1) => format!("1 {what}"),
        Ok(count) => format!("{count} {what}s"),
        Err(_beyond) => format!("very many {what}s"),
    }
}
