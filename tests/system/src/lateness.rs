//! Checks that the schedulers handled fire times in time, and whether faults excuse a delay.
//!
//! If the database and any one scheduler have no fault for long enough, a scheduler leads, renews
//! its lease, and must handle the due fire times. So a delay is excused only if there was no such
//! stretch between the due time and the record. Pure.

/// Seconds without faults after which a delay is not excused: the lease (3 s), the transaction of a
/// frozen leader (1.5 s), a wait for a pool with broken connections (5 s), a repeated heartbeat
/// (1.5 s), and a busy machine.
pub(crate) const STRETCH: f64 = 15.0;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Scope {
    All,
    Scheduler(String),
}

/// Times are seconds since the epoch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fault<'a> {
    pub(crate) kind: &'a str,
    pub(crate) target: &'a str,
    pub(crate) began: f64,
    pub(crate) ended: f64,
}

/// A fault that keeps schedulers from their work. Times are seconds since the epoch.
#[derive(Debug, Clone)]
pub(crate) struct Outage {
    pub(crate) scope: Scope,
    pub(crate) began: f64,
    pub(crate) ended: f64,
}

impl Outage {
    /// The outage of a fault, if it affects schedulers. `pooled` is the scheduler that reaches the
    /// database through the pooler.
    pub(crate) fn of(fault: Fault<'_>, pooled: &str) -> Option<Self> {
        let Fault { kind, target, began, ended } = fault;
        let scope = match (kind, target) {
            // No faults, or each affected daemon has a separate line.
            ("left-out" | "exit" | "start" | "rolling-same-build" | "rolling-other-build", _) => return None,
            // These delay no scheduler.
            ("snapshot" | "clock", _) => return None,
            // A leader with slow requests renews its lease, and no other scheduler may do its work.
            ("delay", target) if target.starts_with("scheduler") => Scope::All,
            (_, "postgres" | "database") => Scope::All,
            (_, "pgbouncer") => Scope::Scheduler(pooled.to_owned()),
            (_, target) if target.starts_with("scheduler-") => Scope::Scheduler(target.to_owned()),
            _ => return None,
        };
        Some(Self { scope, began, ended })
    }
}

/// Whether faults prevented every scheduler from handling a fire time that was due at `due` and
/// recorded at `created`.
pub(crate) fn is_excused(due: f64, created: f64, outages: &[Outage], schedulers: &[String]) -> bool {
    let all = [None];
    let each = schedulers.iter().map(Some);
    // Without names, only faults that affect all schedulers count.
    let candidates = if schedulers.is_empty() { all.into_iter().collect::<Vec<_>>() } else { each.collect() };
    !candidates.into_iter().any(|scheduler| longest_stretch(due, created, outages, scheduler) >= STRETCH)
}

/// The longest stretch without a fault of the database or of a scheduler.
fn longest_stretch(from: f64, until: f64, outages: &[Outage], scheduler: Option<&String>) -> f64 {
    let concerns = |outage: &&Outage| match &outage.scope {
        Scope::All => true,
        Scope::Scheduler(name) => Some(name) == scheduler,
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
        Outage::of(Fault { kind, target, began, ended }, "scheduler-1").unwrap()
    }

    fn is_late(outages: &[Outage]) -> bool {
        let schedulers = ["scheduler-0".to_owned(), "scheduler-1".to_owned()];
        !is_excused(100.0, 135.0, outages, &schedulers)
    }

    #[test]
    fn fault_excuses_only_the_delay_that_it_causes() {
        assert!(is_late(&[]));
        assert!(
            !is_late(&[out("crash", "postgres", 112.0, 122.0)]),
            "less than fifteen seconds on either side"
        );
        assert!(
            is_late(&[out("crash", "postgres", 90.0, 117.0)]),
            "the database was available for eighteen seconds"
        );
        assert!(is_late(&[out("crash", "postgres", 60.0, 90.0)]), "the fault was before the due time");
        assert!(is_late(&[out("freeze", "scheduler-0", 100.0, 135.0)]), "the other scheduler could lead");
        let both = [out("freeze", "scheduler-0", 99.0, 125.0), out("kill", "scheduler-1", 105.0, 134.0)];
        assert!(!is_late(&both));
        let one = [out("freeze", "scheduler-0", 99.0, 110.0), out("kill", "scheduler-1", 105.0, 134.0)];
        assert!(is_late(&one), "the first scheduler was awake for long enough");
        let pooled = [out("freeze", "scheduler-0", 99.0, 136.0), out("pooler", "pgbouncer", 110.0, 122.0)];
        assert!(!is_late(&pooled));
        assert!(!is_late(&[out("delay", "scheduler-0", 112.0, 122.0)]), "the scheduler leads and is slow");
        let third = [out("renew", "scheduler-0", 99.0, 125.0), out("kill", "scheduler-1", 105.0, 134.0)];
        assert!(!is_late(&third));
        for (kind, target) in [
            ("freeze", "worker-0"),
            ("left-out", "postgres"),
            ("exit", "scheduler-0"),
            ("start", "scheduler-0"),
            ("rolling-same-build", "scheduler"),
        ] {
            let fault = Fault { kind, target, began: 100.0, ended: 125.0 };
            assert!(Outage::of(fault, "").is_none(), "{kind} of {target}");
        }
    }

    #[test]
    fn timely_record_needs_no_excuse() {
        assert!(is_excused(100.0, 114.0, &[], &[]) && !is_excused(100.0, 116.0, &[], &[]));
    }
}
