//! Draws the plan from the seed before anything runs, so that a run can be repeated.
//!
//! Faults and each client have separate streams, which do not depend on results. Pure.

use std::time::Duration;

use super::dice::Dice;
use super::{
    BY_HAND, CHANGED, Deed, Fault, Intensity, Kind, Planned, SWITCHED, Target, WORKERS, Weather, What,
    count_of,
};

/// No fault or request begins in this time at the end.
const LAST: Duration = Duration::from_secs(3);

pub(crate) fn faults(seed: u64, length: Duration, intensity: Intensity) -> Vec<Fault> {
    let mut dice = Dice::new(seed, 0);
    let (least, most) = match intensity {
        Intensity::Low => (4000, 8000),
        Intensity::Normal => (1500, 3000),
        Intensity::High => (500, 1500),
    };
    let mut faults = Vec::new();
    let mut at = dice.span(least, most);
    while at + LAST < length {
        faults.push(Fault { at, what: fault(&mut dice) });
        at += dice.span(least, most);
    }
    // Each rare fault occurs once, early enough for its consequences to show.
    for (fault, band) in faults.iter_mut().skip(1).step_by(3).zip(RARE) {
        fault.what = what(&mut dice, band);
    }
    // A frozen daemon resumes before the end.
    for fault in &mut faults {
        if let What::Freeze(_, lasts) = &mut fault.what {
            *lasts = (*lasts).min(length.saturating_sub(fault.at));
        }
    }
    faults
}

/// Faults of every run except short ones, as positions within a hundred.
const RARE: [u64; 4] = [95, 96, 98, 93];

/// Some light faults per minute, for a long run. The first daemon of each kind is never stopped, so
/// that growth in it is visible.
pub(crate) fn light_faults(seed: u64, length: Duration) -> Vec<Fault> {
    let mut dice = Dice::new(seed, 0);
    let mut faults = Vec::new();
    let mut at = dice.span(12_000, 25_000);
    while at + LAST < length {
        faults.push(Fault { at, what: lightened(fault(&mut dice)) });
        at += dice.span(12_000, 25_000);
    }
    // Every run drains a worker, however short it is.
    for (fault, band) in faults.iter_mut().skip(1).zip(RARE).take(1) {
        fault.what = lightened(what(&mut dice, band));
    }
    faults
}

const LIGHT: Duration = Duration::from_secs(5);

fn lightened(what: What) -> What {
    let spared = |target: Target| Target { number: target.number.max(1), ..target };
    match what {
        What::Kill(target, pause) => What::Kill(spared(target), pause),
        What::Term(target, pause) => What::Term(spared(target), pause),
        What::Freeze(target, lasts) => What::Freeze(target, lasts.min(LIGHT)),
        What::Network(target, weather, lasts) => What::Network(target, weather, lasts.min(LIGHT)),
        What::DiskFull(_) => What::Terminate(4),
        What::Rolling(kind) => What::Term(Target { kind, number: 1 }, Duration::ZERO),
        What::Drain(number, lasts) => What::Drain(number, lasts.min(LIGHT)),
        // A long run has one snapshot and no wrong clocks.
        What::Snapshot(_) => What::Terminate(2),
        What::Clock(kind, ..) => What::Cut(Target { kind, number: 1 }),
        What::Cut(_) | What::Crash(_) | What::Restart(_) | What::Terminate(_) | What::Pooler(_) => what,
    }
}

/// Fewer actions, for a long run. None creates jobs with a schedule, whose number would grow
/// without limit.
pub(crate) fn light_deeds(seed: u64, client: u64, length: Duration) -> Vec<Planned> {
    let mut dice = Dice::new(seed, client + 1);
    let mut deeds = Vec::new();
    let mut at = dice.span(0, 3000);
    while at + LAST < length {
        let deed = match deed(&mut dice) {
            Deed::Create { .. } => Deed::Create { seconds: 0 },
            other => other,
        };
        deeds.push(Planned { at, deed });
        at += dice.span(1500, 4500);
    }
    deeds
}

fn target(dice: &mut Dice) -> Target {
    let kind = dice.choose(&[(4, Kind::Scheduler), (5, Kind::Worker), (2, Kind::Api)], Kind::Worker);
    Target { kind, number: dice.below(count_of(kind)) }
}

fn fault(dice: &mut Dice) -> What {
    let band = dice.between(0, 99);
    what(dice, band)
}

/// The fault at this position within a hundred.
fn what(dice: &mut Dice, band: u64) -> What {
    let target = target(dice);
    match band {
        0..22 => What::Kill(target, dice.span(100, 4000)),
        22..38 => {
            let most = match dice.between(0, 7) {
                0 => 60_000,
                1 => 20_000,
                _ => 7000,
            };
            What::Freeze(target, dice.span(1000, most))
        }
        38..48 => What::Term(target, dice.span(0, 2000)),
        48..55 => What::Network(target, Weather::Held, dice.span(1000, 12_000)),
        55..60 => What::Network(target, Weather::HalfOpen, dice.span(1000, 10_000)),
        60..65 => What::Network(target, Weather::Delayed(dice.span(20, 600)), dice.span(2000, 8000)),
        65..70 => What::Cut(target),
        70..73 => What::Network(target, Weather::Refused, dice.span(500, 6000)),
        73..77 => What::Network(target, Weather::CutBeforeCommit, dice.span(500, 4000)),
        77..81 => What::Network(target, Weather::CutAfterCommit, dice.span(500, 4000)),
        81..85 => What::Terminate(dice.between(1, 8)),
        85..88 => What::Crash(dice.span(0, 3000)),
        88..90 => What::Restart(dice.span(0, 3000)),
        90..92 => What::Pooler(dice.span(0, 2000)),
        92 => What::DiskFull(dice.span(1000, 4000)),
        93 => What::Rolling(target.kind),
        94..96 => What::Drain(dice.below(WORKERS), dice.span(2000, 10_000)),
        96..98 => What::Snapshot(dice.span(3000, 15_000)),
        _ => {
            // From seconds to days, ahead or behind.
            let seconds = [7, 90, 3_600, 10_800, 90_000][dice.below(5)];
            let seconds = if dice.between(0, 1) == 0 { seconds } else { -seconds };
            What::Clock(target.kind, seconds, dice.span(3000, 12_000))
        }
    }
}

pub(crate) fn deeds(seed: u64, client: u64, length: Duration) -> Vec<Planned> {
    let mut dice = Dice::new(seed, client + 1);
    let mut deeds = Vec::new();
    let mut at = dice.span(0, 1000);
    while at + LAST < length {
        deeds.push(Planned { at, deed: deed(&mut dice) });
        at += dice.span(200, 1100);
    }
    deeds
}

fn deed(dice: &mut Dice) -> Deed {
    let job = dice.below(CHANGED);
    match dice.between(0, 99) {
        0..28 => Deed::Trigger { job: dice.below(BY_HAND), is_long: dice.between(0, 2) == 0 },
        28..32 => Deed::Again,
        32..38 => Deed::Create { seconds: dice.between(0, 6) },
        38..52 => Deed::Apply { job, choice: dice.between(0, 9) },
        52..60 => Deed::Pause { job, seconds: (dice.between(0, 1) == 0).then(|| dice.between(2, 12)) },
        60..69 => Deed::Resume { job },
        69..71 => Deed::Hold { what: dice.below(SWITCHED.len()) },
        71..74 => Deed::Release { what: dice.below(SWITCHED.len()) },
        74..77 => Deed::Disable { job },
        77..82 => Deed::Enable { job },
        82..89 => Deed::Cancel,
        89..91 => Deed::CancelJob { job },
        91..94 => Deed::Retry,
        94..99 => Deed::Peek { page: dice.below(6) },
        _ => Deed::StepDown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_seed_gives_the_same_plan_and_another_seed_another_plan() {
        let length = Duration::from_secs(600);
        assert_eq!(faults(1, length, Intensity::Normal), faults(1, length, Intensity::Normal));
        assert_ne!(faults(1, length, Intensity::Normal), faults(2, length, Intensity::Normal));
        assert_eq!(deeds(1, 0, length), deeds(1, 0, length));
        assert_ne!(deeds(1, 0, length), deeds(1, 1, length));
    }

    #[test]
    fn light_faults_are_few_and_spare_the_first_daemon_of_each_kind() {
        for seed in 0..20 {
            let faults = light_faults(seed, Duration::from_secs(3600));
            assert!((120..=300).contains(&faults.len()), "{} faults of seed {seed}", faults.len());
            for fault in faults {
                match fault.what {
                    What::Kill(target, _) | What::Term(target, _) => {
                        assert_ne!(target.number, 0, "{fault:?}")
                    }
                    What::Freeze(_, lasts) | What::Network(_, _, lasts) => {
                        assert!(lasts <= LIGHT, "{fault:?}")
                    }
                    What::DiskFull(_) | What::Rolling(_) | What::Snapshot(_) | What::Clock(..) => {
                        panic!("{fault:?} is not light")
                    }
                    _ => {}
                }
            }
            let deeds = light_deeds(seed, 0, Duration::from_secs(3600));
            assert!(
                deeds.iter().all(|planned| !matches!(planned.deed, Deed::Create { seconds: 1.. })),
                "a job with a schedule is created with seed {seed}"
            );
        }
    }

    #[test]
    fn ten_minutes_have_two_hundred_faults_of_every_kind() {
        for seed in 0..20 {
            let faults = faults(seed, Duration::from_secs(600), Intensity::Normal);
            assert!(faults.len() >= 200, "{} faults of seed {seed}", faults.len());
            let has = |wanted: fn(&What) -> bool| faults.iter().any(|fault| wanted(&fault.what));
            assert!(
                has(|what| matches!(what, What::Crash(_))) && has(|what| matches!(what, What::Freeze(..)))
            );
            let length = Duration::from_secs(600);
            assert!(faults.iter().all(|fault| match fault.what {
                What::Freeze(_, lasts) => lasts >= Duration::from_secs(1) && fault.at + lasts <= length,
                _ => true,
            }));
        }
    }

    #[test]
    fn rare_faults_occur_within_the_first_minute() {
        for seed in 0..20 {
            let faults = faults(seed, Duration::from_secs(60), Intensity::Normal);
            let early: Vec<What> = faults
                .iter()
                .filter(|fault| fault.at < Duration::from_secs(45))
                .map(|fault| fault.what)
                .collect();
            let has = |wanted: fn(&What) -> bool| early.iter().any(wanted);
            assert!(has(|what| matches!(what, What::Drain(..))), "seed {seed}");
            assert!(has(|what| matches!(what, What::Snapshot(_))), "seed {seed}");
            assert!(has(|what| matches!(what, What::Clock(..))), "seed {seed}");
            assert!(has(|what| matches!(what, What::Rolling(_))), "seed {seed}");
        }
    }
}
