//! The bounds of a soak, each with its source. Pure.
//!
//! I12 and I20 are invariants of the project's reliability goals; §7 contains their figures for
//! soaks. A bound without data counts as violated. Bounds on growth compare medians of a late part
//! with those of an early part. Bounds on times without faults use samples without a fault during
//! or shortly before the sample.

use super::meters::Histogram;
use super::samples::{HOT, Process, Sample, Table};
use crate::fleet::daemon_name;
use crate::plan::Kind;

/// Shares of the run.
const EARLY: (f64, f64) = (0.10, 0.40);
const LATE: (f64, f64) = (0.75, 1.00);
/// Seconds after a fault in which its effects continue.
const FELT: f64 = 3.0;
/// I20: drift of the claim's 99th percentile over a soak; §7: also while an old snapshot is held.
const CLAIM_DRIFT: f64 = 2.0;
/// §7: fire lateness without faults, in seconds.
const LATENESS: [(f64, &str, f64); 3] = [(0.5, "p50", 0.05), (0.99, "p99", 0.25), (0.999, "p99.9", 1.0)];
/// §7: bloat is at most twofold; I20: dead tuples stay bounded.
const BLOAT: f64 = 2.0;
/// Smaller tables, in bytes, are exempt from the bound on bloat.
const SMALL: f64 = 4.0 * 1024.0 * 1024.0;
/// Dead rows below which autovacuum may not run.
const FEW: f64 = 10_000.0;
/// I12: memory and open files of a daemon return to their earlier level, within this factor.
const GROWTH: f64 = 1.05;
/// Bytes that an allocator may keep without a leak; and the files of the sessions of a leading
/// scheduler.
const MEMORY_SLACK: f64 = 4.0 * 1024.0 * 1024.0;
const FILES_SLACK: f64 = 8.0;
/// Minimum number of samples of a process for a bound on its growth.
const LEAST_LIFE: usize = 12;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Finding {
    pub(super) what: String,
    pub(super) source: &'static str,
    pub(super) measured: f64,
    pub(super) bound: f64,
    pub(super) unit: &'static str,
    pub(super) is_kept: bool,
}

#[derive(Debug, Clone, Copy)]
struct Bound {
    source: &'static str,
    most: f64,
    unit: &'static str,
}

impl Finding {
    fn at_most(what: impl Into<String>, measured: f64, bound: Bound) -> Self {
        let Bound { source, most: bound, unit } = bound;
        // NaN violates the bound: it is not less than or equal to anything.
        Self { what: what.into(), source, measured, bound, unit, is_kept: measured <= bound }
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Retained {
    /// Dispatches that were due for removal ten minutes ago and still existed.
    pub(super) overdue: f64,
}

/// `faults` are pairs of begin and end, in seconds since the epoch.
pub(super) fn decide(samples: &[Sample], faults: &[(f64, f64)], retained: Retained) -> Vec<Finding> {
    let mut findings = claims(samples).to_vec();
    findings.extend(lateness(samples, faults));
    for name in HOT {
        findings.extend(bloat(samples, name));
    }
    for kind in [Kind::Api, Kind::Scheduler, Kind::Worker] {
        findings.extend(growth(samples, kind));
    }
    let pruned: f64 = samples.iter().map(|sample| sample.pruned).sum();
    let overdue = if pruned > 0.0 { retained.overdue } else { f64::NAN };
    findings.push(Finding::at_most(
        format!("dispatches that retention left for ten minutes; it removed {pruned:.0} rows"),
        overdue,
        Bound { source: "issue 7", most: 0.0, unit: "" },
    ));
    findings
}

fn part(samples: &[Sample], (from, until): (f64, f64)) -> impl Iterator<Item = &Sample> + Clone {
    let length = samples.last().map_or(0.0, |last| last.seconds);
    samples.iter().filter(move |sample| sample.seconds > from * length && sample.seconds <= until * length)
}

fn claims(samples: &[Sample]) -> [Finding; 2] {
    let p99 = |sample: &Sample| sample.claims.quantile(0.99);
    let early = median(part(samples, EARLY).filter(|sample| !sample.has_old_snapshot).map(p99));
    let late = median(part(samples, LATE).map(p99));
    let held = median(samples.iter().filter(|sample| sample.has_old_snapshot).map(p99));
    let (early_ms, late_ms, held_ms) = (early * 1e3, late * 1e3, held * 1e3);
    [
        Finding::at_most(
            format!("claim p99, late ({late_ms:.1} ms) over early ({early_ms:.1} ms)"),
            late / early,
            Bound { source: "I20", most: CLAIM_DRIFT, unit: "x" },
        ),
        Finding::at_most(
            format!(
                "claim p99, while an old snapshot is held ({held_ms:.1} ms) over early ({early_ms:.1} ms)"
            ),
            held / early,
            Bound { source: "§7", most: CLAIM_DRIFT, unit: "x" },
        ),
    ]
}

fn lateness(samples: &[Sample], faults: &[(f64, f64)]) -> Vec<Finding> {
    let mut all = Histogram::default();
    let mut looks = 0;
    for pair in samples.windows(2) {
        let [before, sample] = pair else { continue };
        let is_quiet = !faults.iter().any(|(began, ended)| *began < sample.at && ended + FELT > before.at);
        if is_quiet {
            all.add(&sample.lateness);
            looks += 1;
        }
    }
    let of = |(share, name, bound): (f64, &str, f64)| {
        let what =
            format!("lateness {name} without faults ({:.0} dispatches in {looks} samples)", all.count());
        Finding::at_most(
            what,
            all.quantile(share) * 1e3,
            Bound { source: "§7", most: bound * 1e3, unit: "ms" },
        )
    };
    LATENESS.into_iter().map(of).collect()
}

/// The size per row with indexes, late over early; and dead rows over live ones.
fn bloat(samples: &[Sample], name: &str) -> Vec<Finding> {
    let of = move |sample: &Sample| sample.tables.iter().find(|table| table.name == name).cloned();
    let each = |table: Table| table.bytes / table.rows.max(1.0);
    let early = median(part(samples, EARLY).filter_map(of).map(each));
    let late = median(part(samples, LATE).filter_map(of).map(each));
    let bytes = median(part(samples, LATE).filter_map(of).map(|table| table.bytes));
    let dead = median(part(samples, LATE).filter_map(of).map(|table| table.dead));
    let rows = median(part(samples, LATE).filter_map(of).map(|table| table.rows));
    let mut size = Finding::at_most(
        format!("{name}: bytes for each row, late over early ({:.1} MiB)", bytes / (1024.0 * 1024.0)),
        late / early,
        Bound { source: "§7", most: BLOAT, unit: "x" },
    );
    size.is_kept |= bytes <= SMALL;
    let bound = rows.max(FEW);
    vec![
        size,
        Finding::at_most(
            format!("{name}: dead rows"),
            dead,
            Bound { source: "I20", most: bound, unit: "rows" },
        ),
    ]
}

/// Resource use of the longest-lived process, the last quarter of its life over the second.
fn growth(samples: &[Sample], kind: Kind) -> [Finding; 2] {
    let life = longest_life(samples, kind);
    let quarter = life.len() / 4;
    let is_short = life.len() < LEAST_LIFE;
    let over = |of: fn(&Process) -> f64| {
        let early = median(life.iter().skip(quarter).take(quarter).copied().map(of));
        let late = median(life.iter().rev().take(quarter).copied().map(of));
        if is_short { (f64::NAN, f64::NAN) } else { (early, late) }
    };
    let name = life.first().map_or_else(|| daemon_name(kind).to_owned(), |process| process.name.clone());
    let (early, late) = over(|process| process.resident);
    let mut memory = Finding::at_most(
        format!("{name}: resident memory ({:.1} MiB), late over early", late / (1024.0 * 1024.0)),
        late / early,
        Bound { source: "I12", most: GROWTH, unit: "x" },
    );
    memory.is_kept |= late - early <= MEMORY_SLACK;
    let (early, late) = over(|process| process.files);
    let mut files = Finding::at_most(
        format!("{name}: open files ({late:.0}), late over early"),
        late / early,
        Bound { source: "I12", most: GROWTH, unit: "x" },
    );
    files.is_kept |= late - early <= FILES_SLACK;
    [memory, files]
}

fn longest_life(samples: &[Sample], kind: Kind) -> Vec<&Process> {
    let mut lives: Vec<((&str, i32), Vec<&Process>)> = Vec::new();
    for process in samples.iter().flat_map(|sample| &sample.daemons).filter(|process| process.kind == kind) {
        let key = (process.name.as_str(), process.pid);
        match lives.iter_mut().find(|(known, _)| *known == key) {
            Some((_, life)) => life.push(process),
            None => lives.push((key, vec![process])),
        }
    }
    lives.into_iter().map(|(_, life)| life).max_by_key(Vec::len).unwrap_or_default()
}

/// NaN of nothing. NaN values do not count.
fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.filter(|value| value.is_finite()).collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

pub(super) fn table(findings: &[Finding]) -> String {
    let mut text = "| bound | from | measured | at most | |\n|---|---|---|---|---|\n".to_owned();
    for finding in findings {
        let verdict = if finding.is_kept { "kept" } else { "**BROKEN**" };
        let Finding { what, source, measured, bound, unit, .. } = finding;
        text.push_str(&format!(
            "| {what} | {source} | {measured:.2} {unit} | {bound:.2} {unit} | {verdict} |\n"
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "a_bucket{le=\"0.01\"} 100\na_bucket{le=\"0.1\"} 100\na_bucket{le=\"+Inf\"} 100\n";
    const SLOW: &str = "a_bucket{le=\"0.01\"} 0\na_bucket{le=\"0.1\"} 100\na_bucket{le=\"+Inf\"} 100\n";
    const MIB: f64 = 1024.0 * 1024.0;

    /// A hundred samples, ten seconds apart, with an old snapshot in the middle.
    fn run(mut change: impl FnMut(usize, &mut Sample)) -> Vec<Sample> {
        let mut samples = Vec::new();
        for (number, seconds) in (1..=100).zip((1..).map(|number| f64::from(number) * 10.0)) {
            let table = |name: &&str| Table {
                name: (*name).to_owned(),
                bytes: 40.0 * MIB,
                index_bytes: 10.0 * MIB,
                rows: 20_000.0,
                dead: 100.0,
            };
            let process = |(name, kind): (&str, Kind)| Process {
                name: name.to_owned(),
                kind,
                pid: 7,
                resident: 100.0 * MIB,
                files: 20.0,
            };
            let daemons =
                [("api-0", Kind::Api), ("scheduler-0", Kind::Scheduler), ("worker-0", Kind::Worker)];
            let mut sample = Sample {
                at: 1e9 + seconds,
                seconds,
                claims: Histogram::read(PAGE, "a"),
                lateness: Histogram::read(PAGE, "a"),
                pruned: 10.0,
                daemons: daemons.into_iter().map(process).collect(),
                tables: HOT.iter().map(table).collect(),
                sessions: Some(20),
                has_old_snapshot: (50..60).contains(&number),
            };
            change(number, &mut sample);
            samples.push(sample);
        }
        samples
    }

    fn broken(samples: &[Sample], faults: &[(f64, f64)]) -> Vec<String> {
        let findings = decide(samples, faults, Retained { overdue: 0.0 });
        findings.into_iter().filter(|finding| !finding.is_kept).map(|finding| finding.what).collect()
    }

    #[test]
    fn run_without_drift_keeps_every_bound() {
        assert_eq!(broken(&run(|_, _| {}), &[]), Vec::<String>::new());
        assert!(table(&decide(&run(|_, _| {}), &[], Retained { overdue: 0.0 })).contains("| I20 |"));
    }

    #[test]
    fn each_kind_of_drift_violates_its_bound() {
        type Change = fn(usize, &mut Sample);
        let cases: [(&str, Change); 7] = [
            ("claim p99, late", |number, sample| {
                if number > 70 {
                    sample.claims = Histogram::read(SLOW, "a");
                }
            }),
            ("claim p99, while", |_, sample| {
                if sample.has_old_snapshot {
                    sample.claims = Histogram::read(SLOW, "a");
                }
            }),
            ("lateness p50", |_, sample| sample.lateness = Histogram::read(SLOW, "a")),
            ("job_dispatch: bytes", |number, sample| sample.tables[0].bytes += number as f64 * 2.0 * MIB),
            ("scheduled_jobs: dead", |number, sample| sample.tables[1].dead = number as f64 * 500.0),
            ("worker-0: resident", |number, sample| sample.daemons[2].resident += number as f64 * MIB),
            ("api-0: open files", |number, sample| sample.daemons[0].files += number as f64),
        ];
        for (wanted, change) in cases {
            let broken = broken(&run(change), &[]);
            assert!(broken.len() == 1 && broken[0].starts_with(wanted), "{wanted}: {broken:?}");
        }
    }

    #[test]
    fn lateness_counts_only_without_faults_and_needs_such_samples() {
        let samples = run(|number, sample| {
            if number == 30 {
                sample.lateness = Histogram::read(SLOW, "a");
                sample.lateness.add(&Histogram::read(SLOW, "a"));
            }
        });
        let p999 = |faults: &[(f64, f64)]| {
            let findings = lateness(&samples, faults);
            findings[2].measured
        };
        assert!(p999(&[]) > p999(&[(1e9 + 292.0, 1e9 + 295.0)]));
        assert_eq!(broken(&samples, &[(0.0, 2e9)]).len(), 3);
    }

    #[test]
    fn bound_without_data_is_violated() {
        assert!(decide(&[], &[], Retained { overdue: 0.0 }).iter().all(|finding| !finding.is_kept));
        let without_pruning = run(|_, sample| sample.pruned = 0.0);
        assert_eq!(broken(&without_pruning, &[]).len(), 1);
    }

    #[test]
    fn restarted_daemon_counts_as_two_processes() {
        let samples = run(|number, sample| {
            if number > 80 {
                sample.daemons[1].pid = 8;
                sample.daemons[1].resident *= 3.0;
            }
        });
        assert_eq!(broken(&samples, &[]), Vec::<String>::new());
    }
}
