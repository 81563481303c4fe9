//! Counts of starts by time and job.

use super::*;

fn minutes(report: &Report) -> Vec<(String, u32)> {
    report.minutes.minutes().map(|minute| (text(minute.at), minute.count)).collect()
}

#[test]
fn collision_is_reported_with_its_jobs() {
    let names = names(50);
    let mut jobs: Vec<_> = names.iter().map(|name| cron(name, "0 2 * * *")).collect();
    jobs.push(cron("often", "*/30 * * * *"));
    let report = run(&jobs, day());
    assert_eq!(report.starts, 50 + 48);
    let peak = report.peaks.first().unwrap();
    assert_eq!((text(peak.minute).as_str(), peak.starts, peak.in_a_second), ("2026-03-01T02:00:00Z", 51, 51));
    let expected: Vec<_> = names.iter().map(|name| (name.clone(), 1)).chain([("often".into(), 1)]).collect();
    assert_eq!(peak.jobs, expected);
    let second = report.busiest_second.unwrap();
    assert_eq!((text(second.at).as_str(), second.count), ("2026-03-01T02:00:00Z", 51));
    assert_eq!(report.peaks.len(), 10);
    let next = report.peaks.get(1).unwrap();
    assert_eq!((text(next.minute).as_str(), next.starts), ("2026-03-01T00:00:00Z", 1));
}

#[test]
fn peaks_are_sorted_and_limited() {
    let jobs = [cron("a", "5 * * * *"), cron("b", "5 3,7 * * *"), cron("c", "5 7 * * *")];
    let report = simulate(&jobs, day(), Options { peaks: 3, ..OPTIONS }).unwrap();
    let peaks: Vec<_> = report.peaks.iter().map(|peak| (text(peak.minute), peak.starts)).collect();
    let expected = [("2026-03-01T07:05:00Z", 3), ("2026-03-01T03:05:00Z", 2), ("2026-03-01T00:05:00Z", 1)];
    assert_eq!(peaks, expected.map(|(minute, starts)| (minute.to_owned(), starts)));
    let none = simulate(&jobs, day(), Options { peaks: 0, ..OPTIONS }).unwrap();
    assert_eq!((none.peaks.len(), none.starts), (0, 24 + 2 + 1));
}

#[test]
fn minute_reports_its_busiest_second() {
    let report =
        run(&[every("a", 10, 1), every("b", 15, 1)], window("2026-03-01T00:00:05Z", "2026-03-01T00:01:00Z"));
    // a at 10, 20, 30, 40, 50 and b at 15, 30, 45: they meet at 30.
    let peak = report.peaks.first().unwrap();
    assert_eq!((peak.starts, peak.in_a_second), (8, 2));
    assert_eq!(peak.jobs, [("a".to_owned(), 5), ("b".to_owned(), 3)]);
    assert_eq!(text(report.busiest_second.unwrap().at), "2026-03-01T00:00:30Z");
}

#[test]
fn window_is_half_open() {
    let window = window("2026-03-01T00:05:00Z", "2026-03-01T00:15:00Z");
    let report = run(&[cron("a", "*/5 * * * *")], window);
    let expected = [("2026-03-01T00:05:00Z".to_owned(), 1), ("2026-03-01T00:10:00Z".to_owned(), 1)];
    assert_eq!(minutes(&report), expected);
    assert_eq!(report.minutes.busiest(), Some(Moment { at: at("2026-03-01T00:05:00Z"), count: 1 }));
}

#[test]
fn partial_minutes_count_only_their_part() {
    let window = window("2026-03-01T00:00:30.5Z", "2026-03-01T00:01:10Z");
    let report = run(&[every("a", 10, 1)], window);
    let expected = [("2026-03-01T00:00:00Z".to_owned(), 2), ("2026-03-01T00:01:00Z".to_owned(), 1)];
    assert_eq!(minutes(&report), expected);
}

#[test]
fn hours_sum_their_minutes() {
    let report = run(&[cron("a", "10,20 1 * * *"), cron("b", "20 1 * * *")], day());
    assert_eq!(report.hours.len(), 24);
    let hour = report.hours.get(1).unwrap();
    assert_eq!((text(hour.at).as_str(), hour.starts), ("2026-03-01T01:00:00Z", 3));
    assert_eq!(hour.busiest, Some(Moment { at: at("2026-03-01T01:20:00Z"), count: 2 }));
    assert!(
        report
            .hours
            .iter()
            .filter(|other| *other != hour)
            .all(|hour| hour.starts == 0 && hour.busiest.is_none())
    );
}

#[test]
fn a_day_on_which_clocks_change_has_23_or_25_hours() {
    for (from, to, starts) in [
        ("2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z", 23),
        ("2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z", 25),
        ("2026-10-25T23:00:00Z", "2026-10-26T23:00:00Z", 24),
    ] {
        let hourly = job("hourly", cron_timing("0 * * * *", "Europe/Berlin"));
        // 02:30 does not exist in March and occurs twice in October.
        let daily = job("daily", cron_timing("30 2 * * *", "Europe/Berlin"));
        let report = run(&[hourly, daily], window(from, to));
        let counts: Vec<u64> = report.jobs.iter().map(|job| job.starts).collect();
        assert_eq!(
            (counts, report.hours.len()),
            (vec![starts, 1], usize::try_from(starts).unwrap()),
            "{from}"
        );
    }
}

#[test]
fn jitter_moves_starts_within_its_bound_and_over_the_edges_of_the_window() {
    let jittered = || Simulated { jitter_seconds: 600, ..job("a", cron_timing("0 * * * *", "UTC")) };
    let report = run(&[jittered()], day());
    assert_eq!(report.starts, 24);
    for hour in &report.hours {
        assert_eq!(hour.starts, 1, "{}", hour.at);
        assert!(hour.busiest.unwrap().at - hour.at <= TimeDelta::minutes(10));
    }
    // From the fire at midnight, before the window.
    let start = report.minutes.minutes().next().unwrap().at;
    assert!(start > day().from(), "the sample is delayed by a minute at least");
    let after = Window::new(day().from() + TimeDelta::seconds(1), at("2026-03-01T00:59:00Z")).unwrap();
    assert_eq!(
        run(&[jittered()], after).minutes.minutes().map(|minute| minute.at).collect::<Vec<_>>(),
        [start]
    );
    let before = Window::new(day().from(), start).unwrap();
    assert_eq!(run(&[jittered()], before).starts, 0);
}

#[test]
fn jitter_longer_than_the_period_keeps_starts_in_order() {
    let jobs = [Simulated { jitter_seconds: 3600, ..job("a", every_timing(60)) }];
    let report = run(&jobs, day());
    // About as many starts leave at the end as come in at the beginning.
    assert!((1380..=1500).contains(&report.starts), "{}", report.starts);
    let mut stream = Starts::new(&jobs[0].timing, "a", 3600, day()).unwrap();
    let starts: Vec<_> = std::iter::from_fn(|| stream.next().unwrap()).collect();
    assert!(starts.is_sorted());
    assert_eq!(u64::try_from(starts.len()).unwrap(), report.starts);
}

#[test]
fn too_many_starts_name_the_job_with_most() {
    let jobs = [every("rare", 60, 1), every("frequent", 1, 1), every("hourly", 3600, 1)];
    let error = simulate(&jobs, day(), Options { most_starts: 1000, ..OPTIONS }).unwrap_err();
    let SimulationError::TooManyStarts { limit: 1000, job, starts, until } = &error else {
        panic!("{error}")
    };
    assert_eq!(job, "frequent");
    assert!((980..1000).contains(starts) && text(*until).starts_with("2026-03-01T00:16:"), "{error}");
    assert!(error.to_string().contains("up to 2026-03-01T00:16:"), "{error}");
    let exactly = window("2026-03-01T00:00:00Z", "2026-03-01T00:16:40Z");
    assert_eq!(
        simulate(&jobs[1..2], exactly, Options { most_starts: 1000, ..OPTIONS }).unwrap().starts,
        1000
    );
}

#[test]
fn a_window_is_neither_empty_nor_longer_than_a_leap_year() {
    let from = day().from();
    assert_eq!(Window::new(from, from), Err(SimulationError::EmptyWindow));
    let year = from + TimeDelta::days(366);
    assert_eq!(Window::new(from, year).map(Window::to), Ok(year));
    assert_eq!(Window::new(from, year + TimeDelta::nanoseconds(1)), Err(SimulationError::LongWindow));
}

#[test]
fn a_schedule_that_fails_is_named() {
    let failing = || ScheduleError::Engine { field: "schedule_config".into(), message: "broke".into() };
    let jobs = [cron("good", "0 * * * *"), job("bad", Timing::new(move |_| Err(failing())))];
    let error = simulate(&jobs, day(), OPTIONS).unwrap_err();
    assert_eq!(error, SimulationError::Schedule { job: "bad".into(), source: failing() });
}

#[test]
fn nothing_to_simulate_is_an_empty_report() {
    let report = run(&[job("never", Timing::new(|_| Ok(None)))], day());
    assert_eq!((report.starts, report.peaks.len(), report.busiest_second), (0, 0, None));
    assert_eq!((report.most_running, report.spread_peak, report.suggestions.len()), (None, None, 0));
}
