//! Concurrent runs and the effect of overlap policies.

use super::*;

fn short() -> Window {
    window("2026-03-01T00:00:00Z", "2026-03-01T00:10:00Z")
}

fn with(policy: OverlapPolicy, max_instances: u32) -> Report {
    let job = Simulated { overlap_policy: policy, max_instances, ..every("slow", 60, 150) };
    run(&[job], short())
}

#[derive(Debug, PartialEq)]
struct Sums {
    overlapping: u64,
    skipped: u64,
    queued: u64,
    cancelled: u64,
    most_running: u32,
    busy: i64,
}

fn sums(report: &Report) -> Sums {
    let job = report.jobs.first().unwrap();
    assert_eq!(report.starts, 10, "starts are what the schedule asks for");
    assert_eq!(report.most_running.map(|most| most.count), Some(job.most_running));
    assert_eq!(report.busy, job.busy);
    Sums {
        overlapping: job.overlapping,
        skipped: job.skipped,
        queued: job.queued,
        cancelled: job.cancelled,
        most_running: job.most_running,
        busy: job.busy.num_seconds(),
    }
}

#[test]
fn run_ending_at_next_start_does_not_overlap() {
    let report = run(&[every("exact", 60, 60)], short());
    let expected = Sums { overlapping: 0, skipped: 0, queued: 0, cancelled: 0, most_running: 1, busy: 600 };
    assert_eq!(sums(&report), expected);
}

#[test]
fn skipped_starts_are_counted() {
    // Each run skips the two starts after it; the window cuts the last.
    let expected =
        Sums { overlapping: 6, skipped: 6, queued: 0, cancelled: 0, most_running: 1, busy: 3 * 150 + 60 };
    assert_eq!(sums(&with(OverlapPolicy::Skip, 1)), expected);
}

#[test]
fn two_instances_overlap_and_skip_less() {
    // Runs at 0, 1, 3, 4, 6, 7, 9; skipped at 2, 5, 8.
    let expected =
        Sums { overlapping: 9, skipped: 3, queued: 0, cancelled: 0, most_running: 2, busy: 6 * 150 + 60 };
    assert_eq!(sums(&with(OverlapPolicy::Skip, 2)), expected);
}

#[test]
fn allowed_runs_are_concurrent() {
    // Starts at minutes 8 and 9 are cut to 2 minutes and to 1.
    let report = with(OverlapPolicy::Allow, 1);
    let expected = Sums {
        overlapping: 9,
        skipped: 0,
        queued: 0,
        cancelled: 0,
        most_running: 3,
        busy: 8 * 150 + 120 + 60,
    };
    assert_eq!(sums(&report), expected);
    assert_eq!(report.most_running, Some(Moment { at: at("2026-03-01T00:02:00Z"), count: 3 }));
}

#[test]
fn queued_starts_wait_for_the_run_before() {
    let expected = Sums { overlapping: 9, skipped: 0, queued: 9, cancelled: 0, most_running: 1, busy: 600 };
    assert_eq!(sums(&with(OverlapPolicy::Queue, 1)), expected);
    let expected =
        Sums { overlapping: 9, skipped: 0, queued: 8, cancelled: 0, most_running: 2, busy: 600 + 540 };
    assert_eq!(sums(&with(OverlapPolicy::Queue, 2)), expected);
}

#[test]
fn the_oldest_run_is_cancelled_for_the_next() {
    let expected = Sums { overlapping: 9, skipped: 0, queued: 0, cancelled: 9, most_running: 1, busy: 600 };
    assert_eq!(sums(&with(OverlapPolicy::CancelOldest, 1)), expected);
    // The window cuts the runs of minutes 8 and 9.
    let expected = Sums {
        overlapping: 9,
        skipped: 0,
        queued: 0,
        cancelled: 8,
        most_running: 2,
        busy: 8 * 120 + 120 + 60,
    };
    assert_eq!(sums(&with(OverlapPolicy::CancelOldest, 2)), expected);
}

#[test]
fn peak_reports_its_first_instant_and_hours() {
    let jobs = [
        Simulated { duration: Some(Duration::from_secs(5400)), ..cron("long", "0 1 * * *") },
        Simulated { duration: Some(Duration::from_secs(600)), ..cron("short", "20,40 1,5 * * *") },
        Simulated { duration: Some(Duration::from_secs(1200)), ..cron("other", "25 1 * * *") },
    ];
    let report = run(&jobs, day());
    assert_eq!(report.most_running, Some(Moment { at: at("2026-03-01T01:25:00Z"), count: 3 }));
    let hours: Vec<u32> = report.hours.iter().map(|hour| hour.most_running).collect();
    assert_eq!(hours.get(..7), Some(&[0, 3, 1, 0, 0, 1, 0][..]));
    assert_eq!(report.busy, TimeDelta::seconds(5400 + 4 * 600 + 1200));
}

#[test]
fn run_past_the_window_counts_to_its_end() {
    let job = Simulated { duration: Some(Duration::from_secs(7200)), ..cron("late", "0 23 * * *") };
    let report = run(&[job], day());
    assert_eq!(report.busy, TimeDelta::hours(1));
    assert_eq!(report.hours.last().map(|hour| hour.most_running), Some(1));
    let endless = Simulated { duration: Some(Duration::MAX), ..cron("endless", "0 1 * * *") };
    assert_eq!(run(&[endless], day()).busy, TimeDelta::hours(23));
}

#[test]
fn job_without_duration_overlaps_nothing() {
    let jobs = [job("unknown", every_timing(1)), every("zero", 1, 0), every("known", 60, 30)];
    let report = run(&jobs, short());
    assert_eq!(report.starts, 600 + 600 + 10);
    assert_eq!(report.most_running.map(|most| most.count), Some(1));
    assert_eq!(report.busy, TimeDelta::seconds(300));
    assert!(report.jobs.iter().all(|job| job.overlapping == 0));
}
