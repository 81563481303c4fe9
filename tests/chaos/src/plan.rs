//! The plan of a run: faults and requests with their times, drawn from a seed by [`draw`]. The
//! timeline has the actual times.

mod dice;
pub(crate) mod draw;

use std::time::Duration;

use clap::ValueEnum;

pub(crate) const SCHEDULERS: usize = 3;
pub(crate) const WORKERS: usize = 6;
pub(crate) const APIS: usize = 2;
pub(crate) const CLIENTS: u64 = 3;
pub(crate) const CHANGED: usize = 8;
pub(crate) const MANUAL_JOBS: usize = 4;
/// Resources that clients pause, as (API collection, name).
pub(crate) const SWITCHED: [(&str, &str); 3] =
    [("projects", "side"), ("queues", "side"), ("functions", "switched")];

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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Scheduler,
    Worker,
    Api,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) kind: Kind,
    pub(crate) number: usize,
}

/// The state of the network between a daemon and its database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NetworkState {
    Normal,
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

impl NetworkState {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Normal => "fair",
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
pub(crate) enum FaultKind {
    /// `kill -9`; restarted after this pause.
    Kill(Target, Duration),
    /// `kill -9` of a worker whose ends are committed and not counted, and of the leader; both are
    /// restarted after this pause.
    KillUncounted(Duration),
    /// SIGTERM; restarted this long after the end of the process.
    Term(Target, Duration),
    /// SIGSTOP, and SIGCONT after this time.
    Freeze(Target, Duration),
    /// Two more processes count ends. The leader is frozen for this time, then counts too.
    Count(Duration),
    /// The network of a worker holds the ends of its attempts until its lease has ended, and then
    /// delivers them while its claims are revoked.
    Revoke(usize),
    Network(Target, NetworkState, Duration),
    Cut(Target),
    Crash(Duration),
    Restart(Duration),
    Terminate(u64),
    Pooler(Duration),
    DiskFull(Duration),
    /// Each daemon of a kind is stopped and started, one after the other, with the other build if
    /// there is one.
    Rolling(Kind),
    Drain(usize, Duration),
    Snapshot(Duration),
    /// The wrong clock of this kind of daemon is ahead by this number of seconds for this time.
    Clock(Kind, i64, Duration),
}

impl FaultKind {
    /// Its name in the timeline; a rolling restart switches to the other build if there is one.
    pub(crate) const fn name(&self, has_other_build: bool) -> &'static str {
        match self {
            Self::Kill(..) => "kill",
            Self::KillUncounted(_) => "kill-uncounted",
            Self::Term(..) => "term",
            Self::Freeze(..) => "freeze",
            Self::Count(_) => "count",
            Self::Revoke(_) => "revoke",
            Self::Network(_, network, _) => network.name(),
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) at: Duration,
    pub(crate) kind: FaultKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Trigger {
        job: usize,
        is_long: bool,
    },
    Again,
    /// Creates a job that fires at this interval in seconds, or never.
    Create {
        seconds: u64,
    },
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
    Hold {
        resource: usize,
    },
    Release {
        resource: usize,
    },
    Cancel,
    CancelJob {
        job: usize,
    },
    Retry,
    Peek {
        page: usize,
    },
    StepDown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PlannedAction {
    pub(crate) at: Duration,
    pub(crate) action: Action,
}

pub(crate) const fn count_of(kind: Kind) -> usize {
    match kind {
        Kind::Scheduler => SCHEDULERS,
        Kind::Worker => WORKERS,
        Kind::Api => APIS,
    }
}
