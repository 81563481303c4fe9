//! Whether fire times were decided about in time, and whether faults kept the installation from it where they were not.
//!
//! A fault excuses only what it is in the way of. While the database and one scheduler, whichever it is, are left alone for long enough, that one
//! leads or whoever does is well enough to renew its lease, and what is due has to be decided about. So what is late is excused when there was no such stretch
//! between the instant at which it was due and its record, and not otherwise. Pure.

/// How long the database and a scheduler have to be left alone before lateness is nobody's fault but theirs, in seconds: the lease (3 s), what a frozen
/// leader's transaction may hold up besides (1.5 s), a wait for a place in a pool whose connections have broken (5 s), a heartbeat that is tried again (1.5 s), and
/// what a machine on which much else runs needs.
pub(crate) const STRETCH: f64 = 15.0;

/// What a fault is done to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Struck {
    /// What every scheduler needs.
    Everybody,
    /// One scheduler.
    Scheduler(String),
}

/// A fault that keeps schedulers from their work: seconds since the epoch.
#[derive(Debug, Clone)]
pub(crate) struct Outage {
    pub(crate) struck: Struck,
    pub(crate) began: f64,
    pub(crate) ended: f64,
}

impl Outage {
    /// The fault of that kind and target, if it keeps any scheduler from its work. `pooled` reach the database through the pooler.
    pub(crate) fn of(kind: &str, target: &str, began: f64, ended: f64, pooled: &str) -> Option<Self> {
        let struck = match (kind, target) {
            // What was not done, and what a daemon did to itself. A rolling restart has a line for each that is renewed, and each start one.
            ("left-out" | "exit" | "start" | "rolling-same-build" | "rolling-other-build", _) => return None,
            // Who holds an old snapshot, or has a clock that is wrong, is in nobody's way.
            ("snapshot" | "clock", _) => return None,
            // A leader whose every request takes a while renews its lease, and nobody else may do its work.
            ("delay", target) if target.starts_with("scheduler") => Struck::Everybody,
            (_, "postgres" | "database") => Struck::Everybody,
            (_, "pgbouncer") => Struck::Scheduler(pooled.to_owned()),
            (_, target) if target.starts_with("scheduler-") => Struck::Scheduler(target.to_owned()),
            _ => return None,
        };
        Some(Self { struck, began, ended })
    }
}

/// Whether faults kept everybody from deciding about what was due at `due` until it was recorded at `made`.
pub(crate) fn is_excused(due: f64, made: f64, outages: &[Outage], schedulers: &[String]) -> bool {
    let all = [None];
    let each = schedulers.iter().map(Some);
    // Where nobody is known by name, what strikes everybody counts.
    let candidates = if schedulers.is_empty() { all.into_iter().collect::<Vec<_>>() } else { each.collect() };
    !candidates.into_iter().any(|scheduler| longest_stretch(due, made, outages, scheduler) >= STRETCH)
}

/// The longest stretch between two instants in which nothing was done to the database or to a scheduler.
fn longest_stretch(from: f64, until: f64, outages: &[Outage], scheduler: Option<&String>) -> f64 {
    let concerns = |outage: &&Outage| match &outage.struck {
        Struck::Everybody => true,
        Struck::Scheduler(name) => Some(name) == scheduler,
    };
    let mut spans: Vec<(f64, f64)> =
        outages.iter().filter(concerns).map(|outage| (outage.began, outage.ended)).collect();
    spans.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (mut at, mut longest) = (from, 0.0_f64);
    for (began, ended) in spans {
        longest = longest.max(began.min(until) - at);
        at = at.max(ended);
    }
    longest.max(until - at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn out(kind: &str, target: &str, began: f64, ended: f64) -> Outage {
        Outage::of(kind, target, began, ended, "scheduler-1").unwrap()
    }

    fn is_late(outages: &[Outage]) -> bool {
        let schedulers = ["scheduler-0".to_owned(), "scheduler-1".to_owned()];
        !is_excused(100.0, 135.0, outages, &schedulers)
    }

    #[test]
    fn a_fault_excuses_only_what_it_was_in_the_way_of() {
        assert!(is_late(&[]));
        assert!(
            !is_late(&[out("crash", "postgres", 112.0, 122.0)]),
            "less than fifteen seconds on either side"
        );
        assert!(is_late(&[out("crash", "postgres", 90.0, 117.0)]), "back for eighteen seconds");
        assert!(is_late(&[out("crash", "postgres", 60.0, 90.0)]), "before it was due");
        assert!(is_late(&[out("freeze", "scheduler-0", 100.0, 135.0)]), "the other could lead");
        let both = [out("freeze", "scheduler-0", 99.0, 125.0), out("kill", "scheduler-1", 105.0, 134.0)];
        assert!(!is_late(&both));
        let one = [out("freeze", "scheduler-0", 99.0, 110.0), out("kill", "scheduler-1", 105.0, 134.0)];
        assert!(is_late(&one), "the first was awake for long enough");
        let pooled = [out("freeze", "scheduler-0", 99.0, 136.0), out("pooler", "pgbouncer", 110.0, 122.0)];
        assert!(!is_late(&pooled));
        assert!(!is_late(&[out("delay", "scheduler-0", 112.0, 122.0)]), "it leads and is slow");
        let third = [out("renew", "scheduler-0", 99.0, 125.0), out("kill", "scheduler-1", 105.0, 134.0)];
        assert!(!is_late(&third));
        for (kind, target) in [
            ("freeze", "worker-0"),
            ("left-out", "postgres"),
            ("exit", "scheduler-0"),
            ("start", "scheduler-0"),
            ("rolling-same-build", "scheduler"),
        ] {
            assert!(Outage::of(kind, target, 100.0, 125.0, "").is_none(), "{kind} of {target}");
        }
    }

    #[test]
    fn what_is_decided_at_once_needs_no_excuse() {
        assert!(is_excused(100.0, 114.0, &[], &[]) && !is_excused(100.0, 116.0, &[], &[]));
    }
}
