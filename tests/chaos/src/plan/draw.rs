//! Draws the plan from the seed before anything runs, so that a run can be repeated.
//!
//! Faults and each client have separate streams, which do not depend on results. Pure.

use std::time::Duration;

use super::dice::Dice;
use super::{
    Action, CHANGED, Fault, FaultKind, Intensity, Kind, MANUAL_JOBS, NetworkState, PlannedAction, SWITCHED,
    Target, WORKERS, count_of,
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
        faults.push(Fault { at, kind: fault(&mut dice) });
        at += dice.span(least, most);
    }
    // Each rare fault occurs once, early enough for its consequences to show.
    for (fault, band) in faults.iter_mut().skip(1).step_by(2).zip(RARE) {
        fault.kind = fault_kind(&mut dice, band);
    }
    // A frozen daemon resumes before the end.
    for fault in &mut faults {
        if let FaultKind::Freeze(_, lasts) = &mut fault.kind {
            *lasts = (*lasts).min(length.saturating_sub(fault.at));
        }
    }
    faults
}

/// Faults of every run except short ones, as positions within a hundred.
const RARE: [u64; 7] = [95, 18, 33, 35, 96, 98, 93];

/// Some light faults per minute, for a long run. The first daemon of each kind is never stopped, so
/// that growth in it is visible.
pub(crate) fn light_faults(seed: u64, length: Duration) -> Vec<Fault> {
    let mut dice = Dice::new(seed, 0);
    let mut faults = Vec::new();
    let mut at = dice.span(12_000, 25_000);
    while at + LAST < length {
        faults.push(Fault { at, kind: lightened(fault(&mut dice)) });
        at += dice.span(12_000, 25_000);
    }
    // Every run drains a worker, however short it is.
    for (fault, band) in faults.iter_mut().skip(1).zip(RARE).take(1) {
        fault.kind = lightened(fault_kind(&mut dice, band));
    }
    faults
}

const LIGHT: Duration = Duration::from_secs(5);

fn lightened(kind: FaultKind) -> FaultKind {
    let spared = |target: Target| Target { number: target.number.max(1), ..target };
    match kind {
        FaultKind::Kill(target, pause) => FaultKind::Kill(spared(target), pause),
        FaultKind::Term(target, pause) => FaultKind::Term(spared(target), pause),
        // Both processes may be the first of their kind.
        FaultKind::KillUncounted(pause) => FaultKind::Kill(Target { kind: Kind::Worker, number: 1 }, pause),
        FaultKind::Freeze(target, lasts) => FaultKind::Freeze(target, lasts.min(LIGHT)),
        FaultKind::Revoke(number) => {
            FaultKind::Network(Target { kind: Kind::Worker, number }, NetworkState::Held, LIGHT)
        }
        FaultKind::Network(target, network, lasts) => FaultKind::Network(target, network, lasts.min(LIGHT)),
        FaultKind::DiskFull(_) => FaultKind::Terminate(4),
        FaultKind::Rolling(kind) => FaultKind::Term(Target { kind, number: 1 }, Duration::ZERO),
        FaultKind::Drain(number, lasts) => FaultKind::Drain(number, lasts.min(LIGHT)),
        // A long run has one snapshot and no wrong clocks.
        FaultKind::Snapshot(_) => FaultKind::Terminate(2),
        FaultKind::Clock(kind, ..) => FaultKind::Cut(Target { kind, number: 1 }),
        FaultKind::Count(_)
        | FaultKind::Cut(_)
        | FaultKind::Crash(_)
        | FaultKind::Restart(_)
        | FaultKind::Terminate(_)
        | FaultKind::Pooler(_) => kind,
    }
}

/// Fewer actions, for a long run. None creates jobs with a schedule, whose number would grow
/// without limit.
pub(crate) fn light_actions(seed: u64, client: u64, length: Duration) -> Vec<PlannedAction> {
    let mut dice = Dice::new(seed, client + 1);
    let mut actions = Vec::new();
    let mut at = dice.span(0, 3000);
    while at + LAST < length {
        let action = match action(&mut dice) {
            Action::Create { .. } => Action::Create { seconds: 0 },
            other => other,
        };
        actions.push(PlannedAction { at, action });
        at += dice.span(1500, 4500);
    }
    actions
}

fn target(dice: &mut Dice) -> Target {
    let kind = dice.choose(&[(4, Kind::Scheduler), (5, Kind::Worker), (2, Kind::Api)], Kind::Worker);
    Target { kind, number: dice.below(count_of(kind)) }
}

fn fault(dice: &mut Dice) -> FaultKind {
    let band = dice.between(0, 99);
    fault_kind(dice, band)
}

/// The fault at this position within a hundred.
fn fault_kind(dice: &mut Dice, band: u64) -> FaultKind {
    let target = target(dice);
    match band {
        0..18 => FaultKind::Kill(target, dice.span(100, 4000)),
        18..20 => FaultKind::KillUncounted(dice.span(100, 4000)),
        20..33 => {
            let most = match dice.between(0, 7) {
                0 => 60_000,
                1 => 20_000,
                _ => 7000,
            };
            FaultKind::Freeze(target, dice.span(1000, most))
        }
        33..35 => FaultKind::Revoke(dice.below(WORKERS)),
        35..38 => FaultKind::Count(dice.span(1000, 4000)),
        38..48 => FaultKind::Term(target, dice.span(0, 2000)),
        48..55 => FaultKind::Network(target, NetworkState::Held, dice.span(1000, 12_000)),
        55..60 => FaultKind::Network(target, NetworkState::HalfOpen, dice.span(1000, 10_000)),
        60..65 => {
            FaultKind::Network(target, NetworkState::Delayed(dice.span(20, 600)), dice.span(2000, 8000))
        }
        65..70 => FaultKind::Cut(target),
        70..73 => FaultKind::Network(target, NetworkState::Refused, dice.span(500, 6000)),
        73..77 => FaultKind::Network(target, NetworkState::CutBeforeCommit, dice.span(500, 4000)),
        77..81 => FaultKind::Network(target, NetworkState::CutAfterCommit, dice.span(500, 4000)),
        81..85 => FaultKind::Terminate(dice.between(1, 8)),
        85..88 => FaultKind::Crash(dice.span(0, 3000)),
        88..90 => FaultKind::Restart(dice.span(0, 3000)),
        90..92 => FaultKind::Pooler(dice.span(0, 2000)),
        92 => FaultKind::DiskFull(dice.span(1000, 4000)),
        93 => FaultKind::Rolling(target.kind),
        94..96 => FaultKind::Drain(dice.below(WORKERS), dice.span(2000, 10_000)),
        96..98 => FaultKind::Snapshot(dice.span(3000, 15_000)),
        _ => {
            // From seconds to days, ahead or behind.
            let seconds = [7, 90, 3_600, 10_800, 90_000][dice.below(5)];
            let seconds = if dice.between(0, 1) == 0 { seconds } else { -seconds };
            FaultKind::Clock(target.kind, seconds, dice.span(3000, 12_000))
        }
    }
}

pub(crate) fn actions(seed: u64, client: u64, length: Duration) -> Vec<PlannedAction> {
    let mut dice = Dice::new(seed, client + 1);
    let mut actions = Vec::new();
    let mut at = dice.span(0, 1000);
    while at + LAST < length {
        actions.push(PlannedAction { at, action: action(&mut dice) });
        at += dice.span(200, 1100);
    }
    actions
}

fn action(dice: &mut Dice) -> Action {
    let job = dice.below(CHANGED);
    match dice.between(0, 99) {
        0..28 => Action::Trigger { job: dice.below(MANUAL_JOBS), is_long: dice.between(0, 2) == 0 },
        28..32 => Action::Again,
        32..38 => Action::Create { seconds: dice.between(0, 6) },
        38..52 => Action::Apply { job, choice: dice.between(0, 9) },
        52..60 => Action::Pause { job, seconds: (dice.between(0, 1) == 0).then(|| dice.between(2, 12)) },
        60..69 => Action::Resume { job },
        69..71 => Action::Hold { resource: dice.below(SWITCHED.len()) },
        71..74 => Action::Release { resource: dice.below(SWITCHED.len()) },
        74..77 => Action::Disable { job },
        77..82 => Action::Enable { job },
        82..89 => Action::Cancel,
        89..91 => Action::CancelJob { job },
        91..94 => Action::Retry,
        94..99 => Action::Peek { page: dice.below(6) },
        _ => Action::StepDown,
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
        assert_eq!(actions(1, 0, length), actions(1, 0, length));
        assert_ne!(actions(1, 0, length), actions(1, 1, length));
    }

    #[test]
    fn light_faults_are_few_and_spare_the_first_daemon_of_each_kind() {
        for seed in 0..20 {
            let faults = light_faults(seed, Duration::from_secs(3600));
            assert!((120..=300).contains(&faults.len()), "{} faults of seed {seed}", faults.len());
            for fault in faults {
                match fault.kind {
                    FaultKind::Kill(target, _) | FaultKind::Term(target, _) => {
                        assert_ne!(target.number, 0, "{fault:?}")
                    }
                    FaultKind::Freeze(_, lasts) | FaultKind::Network(_, _, lasts) => {
                        assert!(lasts <= LIGHT, "{fault:?}")
                    }
                    FaultKind::DiskFull(_)
                    | FaultKind::Rolling(_)
                    | FaultKind::Snapshot(_)
                    | FaultKind::KillUncounted(_)
                    | FaultKind::Revoke(_)
                    | FaultKind::Clock(..) => {
                        panic!("{fault:?} is not light")
                    }
                    _ => {}
                }
            }
            let actions = light_actions(seed, 0, Duration::from_secs(3600));
            assert!(
                actions.iter().all(|planned| !matches!(planned.action, Action::Create { seconds: 1.. })),
                "a job with a schedule is created with seed {seed}"
            );
        }
    }

    #[test]
    fn ten_minutes_have_two_hundred_faults_of_every_kind() {
        for seed in 0..20 {
            let faults = faults(seed, Duration::from_secs(600), Intensity::Normal);
            assert!(faults.len() >= 200, "{} faults of seed {seed}", faults.len());
            let has = |is_kind: fn(&FaultKind) -> bool| faults.iter().any(|fault| is_kind(&fault.kind));
            assert!(
                has(|kind| matches!(kind, FaultKind::Crash(_)))
                    && has(|kind| matches!(kind, FaultKind::Freeze(..)))
            );
            let length = Duration::from_secs(600);
            assert!(faults.iter().all(|fault| match fault.kind {
                FaultKind::Freeze(_, lasts) => lasts >= Duration::from_secs(1) && fault.at + lasts <= length,
                _ => true,
            }));
        }
    }

    #[test]
    fn rare_faults_occur_within_the_first_minute() {
        for seed in 0..20 {
            let faults = faults(seed, Duration::from_secs(60), Intensity::Normal);
            let early: Vec<FaultKind> = faults
                .iter()
                .filter(|fault| fault.at < Duration::from_secs(45))
                .map(|fault| fault.kind)
                .collect();
            let has = |is_kind: fn(&FaultKind) -> bool| early.iter().any(is_kind);
            assert!(has(|kind| matches!(kind, FaultKind::Drain(..))), "seed {seed}");
            assert!(has(|kind| matches!(kind, FaultKind::Snapshot(_))), "seed {seed}");
            assert!(has(|kind| matches!(kind, FaultKind::Clock(..))), "seed {seed}");
            assert!(has(|kind| matches!(kind, FaultKind::Rolling(_))), "seed {seed}");
            assert!(has(|kind| matches!(kind, FaultKind::KillUncounted(_))), "seed {seed}");
            assert!(has(|kind| matches!(kind, FaultKind::Count(_))), "seed {seed}");
            assert!(has(|kind| matches!(kind, FaultKind::Revoke(_))), "seed {seed}");
        }
    }
}
