//! Suggestions and their effect.

use super::*;

#[test]
fn collision_is_spread_over_its_hour() {
    let names = names(50);
    let jobs: Vec<_> = names.iter().map(|name| cron(name, "0 2 * * *")).collect();
    let report = run(&jobs, day());
    let after = report.spread_peak.unwrap().count;
    assert!((2..=10).contains(&after), "{after}");
    assert!(report.suggestions.len() >= 40, "{}", report.suggestions.len());
    assert!(report.suggestions.iter().all(|each| each.change == Change::Expression("H 2 * * *".into())));
    assert!(report.suggestions.iter().map(Suggestion::gain).is_sorted_by(|left, right| left >= right));
    let first = report.suggestions.first().unwrap();
    assert_eq!((first.company_before, first.gain() >= 45.0), (50.0, true), "{first:?}");
}

#[test]
fn applied_suggestions_match_the_prediction() {
    let names = names(50);
    let jobs: Vec<_> = names.iter().map(|name| cron(name, "0 2 * * *")).collect();
    let report = run(&jobs, day());
    let followed: Vec<_> = names
        .iter()
        .map(|name| match report.suggestions.iter().any(|each| each.job == *name) {
            true => job(name, cron_timing(&spread_expression("0 2 * * *", name).unwrap().resolved, "UTC")),
            false => cron(name, "0 2 * * *"),
        })
        .collect();
    assert_eq!(run(&followed, day()).minutes.busiest(), report.spread_peak);
}

#[test]
fn frequent_jobs_are_moved_against_each_other() {
    let names = names(30);
    let jobs: Vec<_> = names.iter().map(|name| cron(name, "*/15 * * * *")).collect();
    let report = run(&jobs, day());
    assert_eq!(report.minutes.busiest().map(|minute| minute.count), Some(30));
    let after = report.spread_peak.unwrap().count;
    assert!(after <= 8, "{after}");
    assert!(report.suggestions.iter().all(|each| each.change == Change::Expression("H/15 * * * *".into())));
}

#[test]
fn expression_without_hash_form_gets_jitter() {
    let names = names(40);
    let jobs: Vec<_> = names.iter().map(|name| job(name, every_timing(7200))).collect();
    let report = run(&jobs, day());
    assert!(!report.suggestions.is_empty());
    assert!(
        report.suggestions.iter().all(|each| each.change == Change::Jitter(900)),
        "{:?}",
        report.suggestions
    );
    assert!(report.spread_peak.unwrap().count < 20, "{:?}", report.spread_peak);
    let jobs: Vec<_> = names.iter().map(|name| job(name, every_timing(600))).collect();
    assert_eq!(run(&jobs, day()).suggestions.first().unwrap().change, Change::Jitter(300));
}

#[test]
fn small_gains_are_not_suggested() {
    for jobs in [
        vec![cron("a", "0 2 * * *")],
        vec![cron("a", "0 2 * * *"), cron("b", "0 2 * * *")],
        names(20).iter().map(|_| job("minutely", every_timing(60))).collect(),
        names(20).iter().map(|_| job("often", every_timing(180))).collect(),
        names(20)
            .iter()
            .map(|_| Simulated { jitter_seconds: 5, ..job("jittered", every_timing(7200)) })
            .collect(),
    ] {
        let report = run(&jobs, day());
        assert_eq!(report.suggestions, [], "{}", jobs.first().unwrap().name);
        assert_eq!(report.spread_peak, report.minutes.busiest());
    }
}

#[test]
fn small_collision_beside_large_one_is_kept() {
    let (many, few) = (names(60), ["a", "b", "c", "d"]);
    let mut jobs: Vec<_> = many.iter().map(|name| cron(name, "0 2 * * *")).collect();
    jobs.extend(few.map(|name| cron(name, "0 9 * * *")));
    let report = run(&jobs, day());
    assert!(report.suggestions.iter().all(|each| each.job.starts_with("job-")), "{:?}", report.suggestions);
}

#[test]
fn unlisted_collisions_are_spread_too() {
    let names = names(24 * 10);
    let jobs: Vec<_> = names
        .iter()
        .enumerate()
        .map(|(number, name)| cron(name, &format!("0 {} * * *", number % 24)))
        .collect();
    let report = simulate(&jobs, day(), Options { peaks: 3, ..OPTIONS }).unwrap();
    assert_eq!(report.minutes.busiest().map(|minute| minute.count), Some(10));
    assert!(report.spread_peak.unwrap().count <= 4, "{:?}", report.spread_peak);
}
