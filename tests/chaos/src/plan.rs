//! The plan of faults and requests with their times, drawn from the seed before anything runs, so
//! that a run can be repeated.
//!
//! Faults and the actions of each client are separate streams; none depends on results. The
//! timeline contains the actual begin and end of a fault. Pure.

use std::time::Duration;

use clap::ValueEnum;

use crate::dice::Dice;

/// Number of schedulers.
pub(crate) const SCHEDULERS: usize = 3;
/// Number of workers.
pub(crate) const WORKERS: usize = 6;
/// Number of API instances.
pub(crate) const APIS: usize = 2;
/// Number of concurrent clients.
pub(crate) const CLIENTS: u64 = 3;
/// Number of jobs that clients change repeatedly.
pub(crate) const CHANGED: usize = 8;
/// Number of jobs that clients trigger.
pub(crate) const BY_HAND: usize = 4;
/// Resources besides jobs that clients pause, as (API collection, name).
pub(crate) const SWITCHED: [(&str, &str); 3] =
    [("projects", "side"), ("queues", "side"), ("functions", "switched")];
/// Time at the end in which no fault or request begins.
const LAST: Duration = Duration::from_secs(3);

/// Frequency of the faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Intensity {
    /// A fault every four to eight seconds.
    Low,
    /// A fault every one and a half to three seconds.
    Normal,
    /// A fault every half to one and a half seconds.
    High,
}

/// The kinds of daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Scheduler,
    Worker,
    Api,
}

/// A daemon: its kind and its number within the kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) kind: Kind,
    pub(crate) number: usize,
}

/// The state of the network between a daemon and its database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Weather {
    /// Forwards everything.
    Fair,
    /// Forwards nothing, in either direction, and loses nothing.
    Held,
    /// Forwards requests and holds responses.
    HalfOpen,
    /// Forwards each piece after this delay.
    Delayed(Duration),
    /// Breaks every connection, and each new one at once.
    Refused,
    /// Breaks a connection that sends a commit, before the server sees it.
    CutBeforeCommit,
    /// The server sees the commit, but the client never sees the response.
    CutAfterCommit,
}

impl Weather {
    /// Its name in the timeline.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Fair => "fair",
            Self::Held => "hold",
            Self::HalfOpen => "half-open",
            Self::Delayed(_) => "delay",
            Self::Refused => "refuse",
            Self::CutBeforeCommit => "cut-before-commit",
            Self::CutAfterCommit => "cut-after-commit",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    /// `kill -9`; restarted after this pause.
    Kill(Target, Duration),
    /// SIGTERM; restarted this long after the end of the process.
    Term(Target, Duration),
    /// SIGSTOP, and SIGCONT after this time.
    Freeze(Target, Duration),
    /// The network of a daemon is faulty for this time.
    Network(Target, Weather, Duration),
    /// Every connection of a daemon breaks at once.
    Cut(Target),
    /// The database crashes and is started after this pause.
    Crash(Duration),
    /// The database is stopped normally and started after this pause.
    Restart(Duration),
    /// The server terminates this number of its sessions.
    Terminate(u64),
    /// The pooler ends and is started after this pause.
    Pooler(Duration),
    /// The disk of the database is full for this time.
    DiskFull(Duration),
    /// Each daemon of a kind is stopped and started, one after the other, with the other build if
    /// there is one.
    Rolling(Kind),
    /// The worker with this number drains for this time.
    Drain(usize, Duration),
    /// A session holds a snapshot of the database for this time.
    Snapshot(Duration),
    /// The wrong clock of this kind of daemon is ahead by this number of seconds for this time.
    Clock(Kind, i64, Duration),
}

impl What {
    /// Its name in the timeline; a rolling restart switches to the other build if there is one.
    pub(crate) const fn word(&self, has_other_build: bool) -> &'static str {
        match self {
            Self::Kill(..) => "kill",
            Self::Term(..) => "term",
            Self::Freeze(..) => "freeze",
            Self::Network(_, weather, _) => weather.word(),
            Self::Cut(_) => "cut",
            Self::Crash(_) => "crash",
            Self::Restart(_) => "restart",
            Self::Terminate(_) => "terminate",
            Self::Pooler(_) => "pooler",
            Self::DiskFull(_) => "disk-full",
            Self::Rolling(_) if has_other_build => "rolling-other-build",
            Self::Rolling(_) => "rolling-same-build",
            Self::Drain(..) => "drain",
            Self::Snapshot(_) => "snapshot",
            Self::Clock(..) => "clock",
        }
    }
}

/// A fault and its begin, relative to the start of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) at: Duration,
    pub(crate) what: What,
}

/// An action of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Deed {
    /// Triggers the job with this number, or the long one.
    Trigger {
        job: usize,
        is_long: bool,
    },
    /// Sends its last trigger again.
    Again,
    /// Creates a job that fires at this interval in seconds, or never.
    Create {
        seconds: u64,
    },
    /// Replaces the schedule of a changed job.
    Apply {
        job: usize,
        choice: u64,
    },
    /// Pauses a changed job, for this number of seconds or until it is resumed.
    Pause {
        job: usize,
        seconds: Option<u64>,
    },
    Resume {
        job: usize,
    },
    Disable {
        job: usize,
    },
    Enable {
        job: usize,
    },
    /// Pauses a project, a queue or a function from [`SWITCHED`].
    Hold {
        what: usize,
    },
    /// Resumes it.
    Release {
        what: usize,
    },
    /// Cancels the run of its last trigger.
    Cancel,
    /// Cancels the open runs of a changed job.
    CancelJob {
        job: usize,
    },
    /// Retries a dead letter.
    Retry,
    /// Reads a resource of another tenant.
    Peek {
        page: usize,
    },
    /// Requests the leader to step down.
    StepDown,
}

/// An action of a client, and its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Planned {
    pub(crate) at: Duration,
    pub(crate) deed: Deed,
}

/// The faults of a seed.
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
    // Each rare fault occurs at least once, early enough for its consequences to show.
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

/// The few, light faults of a long run: some per minute. The first daemon of each kind is never
/// stopped, so that growth in it is visible.
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

/// The longest duration of a light fault.
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
        // A long run has its own snapshot, and no wrong clocks.
        What::Snapshot(_) => What::Terminate(2),
        What::Clock(kind, ..) => What::Cut(Target { kind, number: 1 }),
        What::Cut(_) | What::Crash(_) | What::Restart(_) | What::Terminate(_) | What::Pooler(_) => what,
    }
}

/// The actions of a client in a long run: fewer of them, and none that creates jobs with a
/// schedule, because their number would grow without limit.
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

/// Number of daemons of a kind.
pub(crate) const fn count_of(kind: Kind) -> usize {
    match kind {
        Kind::Scheduler => SCHEDULERS,
        Kind::Worker => WORKERS,
        Kind::Api => APIS,
    }
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

/// The actions of a client.
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
    fn a_seed_gives_the_same_plan_and_another_a_different_one() {
        let length = Duration::from_secs(600);
        assert_eq!(faults(1, length, Intensity::Normal), faults(1, length, Intensity::Normal));
        assert_ne!(faults(1, length, Intensity::Normal), faults(2, length, Intensity::Normal));
        assert_eq!(deeds(1, 0, length), deeds(1, 0, length));
        assert_ne!(deeds(1, 0, length), deeds(1, 1, length));
    }

    #[test]
    fn light_faults_are_some_a_minute_and_never_end_the_first_of_a_kind() {
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
                "a job that fires is made with seed {seed}"
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
    fn what_is_rare_comes_within_the_first_minute() {
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
