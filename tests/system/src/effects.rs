//! The effects of jobs. Jobs log them and force the log to disk. A job that runs twice leaves two
//! traces, independent of the database.
//!
//! The command of such a job writes a line at its begin, for each tenth of a second, and at the end
//! of its work. The checker matches the lines with the attempts. The work of every completed
//! attempt was done, every effect belongs to an attempt, and no two attempts of a dispatch worked
//! at the same time.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use test_support::{Client, wait_for};

use crate::PATIENCE;
use crate::verdict::Verdict;

/// Seconds that a worker needs after a freeze to kill attempts whose lease it has lost.
const WAKE: f64 = 1.5;

/// Seconds for which a program may write after the end of its attempt. The end is recorded after
/// the exit, so this covers only the difference of the clocks.
const AFTERLIFE: f64 = 0.25;

#[derive(Debug)]
pub struct Effects {
    path: PathBuf,
    wake: f64,
    /// Removed when the value is dropped.
    _folder: Option<TempDir>,
}

#[derive(Debug, Clone)]
struct Effect {
    dispatch: String,
    attempt: i32,
    pid: i32,
    began: f64,
    seen: f64,
    is_complete: bool,
}

/// A span in which a process could not act, for example because it was frozen. Times are seconds
/// since the epoch.
#[derive(Debug, Clone, Copy)]
pub struct Frozen {
    pub process: i32,
    pub from: f64,
    pub until: f64,
}

impl Effects {
    /// # Panics
    /// When the folder cannot be created.
    #[must_use]
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder for the effect log");
        Self { path: folder.path().join("effects"), wake: WAKE, _folder: Some(folder) }
    }

    /// Takes the log at `path`, which is kept. `wake` is the time in seconds that a worker needs to
    /// act after a freeze.
    #[must_use]
    pub fn at(path: &Path, wake: f64) -> Self {
        Self { path: path.to_owned(), wake, _folder: None }
    }

    /// The command of a job. It runs `prepare`, which may use `$SCHED_ATTEMPT`, then works for
    /// `$work` tenths of a second.
    #[must_use]
    pub fn command(&self, prepare: &str) -> String {
        let log = self.mark();
        format!(
            "export EFFECTS={log}; note() {{ echo \"$1 $SCHED_RUN_ID $SCHED_ATTEMPT $$ $(date +%s.%N)\" >> {log}; sync {log}; }}
             work=0; {prepare}
             note begin
             while [ $work -gt 0 ]; do sleep 0.1; note alive; work=$((work - 1)); done
             note end"
        )
    }

    /// A text in the environment or command line of every process of such a job.
    #[must_use]
    pub fn mark(&self) -> String {
        self.path.display().to_string()
    }

    /// Kinds are `begin`, `alive` and `end`.
    #[must_use]
    pub fn count(&self, kind: &str) -> usize {
        self.read().lines().filter(|line| line.split(' ').next() == Some(kind)).count()
    }

    pub async fn wait(&self, kind: &str, least: usize) {
        wait_for(&format!("{least} lines of {kind:?} in the effect log"), PATIENCE, async || {
            match self.count(kind) {
                seen if seen >= least => Ok(()),
                seen => Err(format!("{seen}")),
            }
        })
        .await;
    }

    fn read(&self) -> String {
        std::fs::read_to_string(&self.path).unwrap_or_default()
    }

    fn effects(&self) -> Vec<Effect> {
        let mut effects = BTreeMap::<(String, i32, i32), Effect>::new();
        for line in self.read().lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let [kind, dispatch, attempt, pid, at] = words[..] else { panic!("{line:?} is not an effect") };
            let number = |word: &str| word.parse::<i32>().expect("the field is a number");
            let (attempt, pid, at) =
                (number(attempt), number(pid), at.parse::<f64>().expect("the field is an instant"));
            let effect = effects.entry((dispatch.to_owned(), attempt, pid)).or_insert_with(|| Effect {
                dispatch: dispatch.to_owned(),
                attempt,
                pid,
                began: at,
                seen: at,
                is_complete: false,
            });
            effect.seen = effect.seen.max(at);
            effect.is_complete |= kind == "end";
        }
        effects.into_values().collect()
    }

    /// The violations, each with its rule. A frozen worker cannot kill its work, so an overlap with
    /// that work during the freeze or shortly after it is excused.
    ///
    /// # Panics
    /// When a query fails.
    pub async fn broken(&self, sql: &Client, frozen: &[Frozen]) -> Vec<String> {
        let verdicts = self.verdicts(sql, frozen).await;
        verdicts
            .into_iter()
            .flat_map(|verdict| {
                let name = verdict.invariant;
                verdict.rows.into_iter().map(move |row| format!("{name}: {row}"))
            })
            .collect()
    }

    /// Like [`Self::broken`], with the number of checked items of each rule.
    ///
    /// # Panics
    /// When a query fails.
    pub async fn verdicts(&self, sql: &Client, frozen: &[Frozen]) -> Vec<Verdict> {
        let effects = self.effects();
        let attempts = attempts(sql).await;
        let excuse = Excuse { frozen, wake: self.wake };
        vec![
            overlaps(&effects, &attempts, &excuse),
            repeated(&effects),
            unaccounted(&effects, &attempts),
            undone(&effects, &attempts),
            undead(&effects, &attempts, &excuse),
            endless(&effects, &attempts, &excuse),
        ]
    }
}

struct Excuse<'a> {
    frozen: &'a [Frozen],
    wake: f64,
}

impl Excuse<'_> {
    /// Whether the worker of the attempt was frozen from `from` to `until`, except for the wake
    /// time. A worker that is frozen again within its wake time has had no time to act.
    fn holds(&self, attempt: Option<&Attempt>, from: f64, until: f64) -> bool {
        let Some(process) = attempt.and_then(|attempt| attempt.process) else { return false };
        let mut reach = from;
        let of_it = || self.frozen.iter().filter(|frozen| frozen.process == process);
        while let Some(next) = of_it().find(|next| next.from <= reach && next.until + self.wake > reach) {
            reach = next.until + self.wake;
        }
        until < reach
    }
}

struct Attempt {
    status: String,
    /// Seconds since the epoch; `None` while it runs.
    ended: Option<f64>,
    process: Option<i32>,
    /// Time-out plus grace, in seconds; `None` if the settings have changed.
    limit: Option<f64>,
}

impl Default for Effects {
    fn default() -> Self {
        Self::new()
    }
}

fn verdict(rule: &str, checked: usize, rows: Vec<String>) -> Verdict {
    Verdict::new(&format!("effects: {rule}"), checked, rows)
}

fn attempt_of<'a>(effect: &Effect, attempts: &'a Attempts) -> Option<&'a Attempt> {
    attempts.get(&(effect.dispatch.clone(), effect.attempt))
}

fn overlaps(effects: &[Effect], attempts: &Attempts, excuse: &Excuse<'_>) -> Verdict {
    let mut of_dispatch = BTreeMap::<&str, Vec<&Effect>>::new();
    for effect in effects {
        of_dispatch.entry(&effect.dispatch).or_default().push(effect);
    }
    let (mut rows, mut excused) = (Vec::new(), 0);
    for effects in of_dispatch.values() {
        for earlier in effects {
            for later in effects {
                let is_later = (later.began, later.pid) > (earlier.began, earlier.pid);
                if !is_later || earlier.seen <= later.began {
                    continue;
                }
                // The worker of the earlier one should have ended it.
                if excuse.holds(attempt_of(earlier, attempts), later.began, earlier.seen) {
                    excused += 1;
                } else {
                    rows.push(format!("{earlier:?} and {later:?}"));
                }
            }
        }
    }
    verdict("two effects of one dispatch overlap", effects.len(), rows).with_excused(excused)
}

fn repeated(effects: &[Effect]) -> Verdict {
    let mut counted = BTreeMap::<(&str, i32), usize>::new();
    for effect in effects {
        *counted.entry((&effect.dispatch, effect.attempt)).or_default() += 1;
    }
    let repeated = counted.into_iter().filter(|(_, count)| *count > 1);
    let rows = repeated.map(|(attempt, count)| format!("{attempt:?} ran {count} times")).collect();
    verdict("an attempt ran more than once", effects.len(), rows)
}

fn unaccounted(effects: &[Effect], attempts: &Attempts) -> Verdict {
    let unknown =
        effects.iter().filter(|effect| !attempts.contains_key(&(effect.dispatch.clone(), effect.attempt)));
    verdict(
        "an effect without an attempt",
        effects.len(),
        unknown.map(|effect| format!("{effect:?}")).collect(),
    )
}

fn undone(effects: &[Effect], attempts: &Attempts) -> Verdict {
    let done: BTreeSet<(&str, i32)> = effects
        .iter()
        .filter(|effect| effect.is_complete)
        .map(|effect| (&*effect.dispatch, effect.attempt))
        .collect();
    let completed: Vec<_> = attempts.iter().filter(|(_, attempt)| attempt.status == "COMPLETED").collect();
    let undone = completed.iter().filter(|((dispatch, attempt), _)| !done.contains(&(&**dispatch, *attempt)));
    let rows = undone.map(|((dispatch, attempt), _)| {
        format!("attempt {attempt} of {dispatch} is COMPLETED, and its work was not done")
    });
    let rows = rows.collect();
    verdict("an attempt is COMPLETED without a complete effect", completed.len(), rows)
}

fn undead(effects: &[Effect], attempts: &Attempts, excuse: &Excuse<'_>) -> Verdict {
    let (mut rows, mut excused) = (Vec::new(), 0);
    for effect in effects {
        let attempt = attempt_of(effect, attempts);
        let Some(ended) = attempt.and_then(|attempt| attempt.ended) else { continue };
        if effect.seen <= ended + AFTERLIFE {
            continue;
        }
        if excuse.holds(attempt, ended, effect.seen) {
            excused += 1;
        } else {
            rows.push(format!("{effect:?}, and its attempt ended at {ended:?}"));
        }
    }
    verdict("a program outlives its attempt", effects.len(), rows).with_excused(excused)
}

fn endless(effects: &[Effect], attempts: &Attempts, excuse: &Excuse<'_>) -> Verdict {
    let (mut checked, mut rows, mut excused) = (0, Vec::new(), 0);
    for effect in effects {
        let attempt = attempt_of(effect, attempts);
        let Some(limit) = attempt.and_then(|attempt| attempt.limit) else { continue };
        checked += 1;
        let over = effect.began + limit;
        if effect.seen <= over + excuse.wake {
            continue;
        }
        if excuse.holds(attempt, over, effect.seen) {
            excused += 1;
        } else {
            rows.push(format!("{effect:?}, with a limit of {limit} s"));
        }
    }
    verdict("a program runs past its time-out", checked, rows).with_excused(excused)
}

type Attempts = BTreeMap<(String, i32), Attempt>;

/// The attempts of all dispatches whose handler writes effects, including running attempts.
async fn attempts(sql: &Client) -> Attempts {
    // The end comes from the witness. The start in the history is the time of the claim, whose
    // answer may have been late.
    let statement = "
        WITH ends AS (
            SELECT dispatch_id, at, row_number() OVER (PARTITION BY dispatch_id ORDER BY id) AS attempt
            FROM witness.transitions WHERE was = 'IN_PROGRESS' AND became <> 'IN_PROGRESS'),
        limits AS (
            SELECT j.id AS job_id, (coalesce(j.timeout_seconds, f.default_timeout_seconds)
                                    + coalesce((f.handler_config->>'grace_seconds')::integer, 10))::double precision AS seconds
            FROM scheduled_jobs j JOIN task_functions f ON f.tenant_id = j.tenant_id AND f.id = j.task_function_id
            WHERE j.id IN (SELECT job_id FROM witness.unchanged_jobs))
        SELECT l.dispatch_id::text, l.attempt, l.status, extract(epoch FROM e.at)::double precision, w.process_id, m.seconds
        FROM job_execution_log l LEFT JOIN ends e ON e.dispatch_id = l.dispatch_id AND e.attempt = l.attempt
        LEFT JOIN witness.workers w ON w.worker_id = l.worker_id LEFT JOIN limits m ON m.job_id = l.job_id
        WHERE l.job_id NOT IN (SELECT id FROM scheduled_jobs WHERE scope = 'system') AND l.status <> 'EXPIRED'
        UNION ALL SELECT d.id::text, d.attempt, d.status, NULL, w.process_id, m.seconds
        FROM job_dispatch d LEFT JOIN witness.workers w ON w.worker_id = d.worker_id LEFT JOIN limits m ON m.job_id = d.job_id
        WHERE d.status = 'IN_PROGRESS'";
    let rows = sql.query(statement, &[]).await.expect("the history can be read");
    rows.into_iter()
        .map(|row| {
            let attempt =
                Attempt { status: row.get(2), ended: row.get(3), process: row.get(4), limit: row.get(5) };
            ((row.get(0), row.get(1)), attempt)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn effect(attempt: i32, began: f64, seen: f64) -> Effect {
        Effect { dispatch: "d".to_owned(), attempt, pid: attempt, began, seen, is_complete: true }
    }

    fn had_by(process: i32, ended: f64) -> Attempt {
        Attempt { status: "LOST".to_owned(), ended: Some(ended), process: Some(process), limit: None }
    }

    /// The first attempt belonged to worker 7 until 13, and its program ran from 10 to 20. The
    /// second began at 15.
    fn decided(frozen: &[Frozen]) -> [(i64, i64); 2] {
        let effects = [effect(1, 10.0, 20.0), effect(2, 15.0, 16.0)];
        let attempts = [("d".to_owned(), 1), ("d".to_owned(), 2)].into_iter();
        let attempts: Attempts = attempts.zip([had_by(7, 13.0), had_by(8, 17.0)]).collect();
        let excuse = Excuse { frozen, wake: 1.0 };
        [overlaps(&effects, &attempts, &excuse), undead(&effects, &attempts, &excuse)]
            .map(|verdict| (verdict.excused, verdict.violations))
    }

    #[test]
    fn only_a_freeze_of_the_worker_of_the_attempt_excuses_an_overlap() {
        assert_eq!(decided(&[]), [(0, 1), (0, 1)]);
        let of_it = Frozen { process: 7, from: 12.0, until: 19.5 };
        assert_eq!(decided(&[of_it]), [(1, 0), (1, 0)]);
        assert_eq!(decided(&[Frozen { process: 9, ..of_it }]), [(0, 1), (0, 1)], "another worker");
        assert_eq!(decided(&[Frozen { from: 16.0, ..of_it }]), [(0, 1), (0, 1)], "the freeze began too late");
        assert_eq!(
            decided(&[Frozen { until: 18.0, ..of_it }]),
            [(0, 1), (0, 1)],
            "the worker was awake for two seconds"
        );
        let twice = |again: f64| [Frozen { from: again, ..of_it }, Frozen { until: 15.0, ..of_it }];
        assert_eq!(decided(&twice(15.5)), [(1, 0), (1, 0)], "frozen again at once");
        assert_eq!(decided(&twice(16.5)), [(0, 1), (0, 1)], "awake for more than a second in between");
    }

    #[test]
    fn program_may_run_for_its_timeout_grace_and_wake_time() {
        let attempts: Attempts =
            [(("d".to_owned(), 1), Attempt { limit: Some(6.0), ..had_by(7, 30.0) })].into_iter().collect();
        let said = |seen: f64, frozen: &[Frozen]| {
            let verdict = endless(&[effect(1, 10.0, seen)], &attempts, &Excuse { frozen, wake: 1.0 });
            (verdict.checked, verdict.excused, verdict.violations)
        };
        assert_eq!(said(17.0, &[]), (1, 0, 0));
        assert_eq!(said(17.1, &[]), (1, 0, 1));
        assert_eq!(said(20.0, &[Frozen { process: 7, from: 15.0, until: 19.5 }]), (1, 1, 0));
        assert_eq!(said(20.0, &[Frozen { process: 8, from: 15.0, until: 19.5 }]), (1, 0, 1));
        let unknown = Attempts::from([(("d".to_owned(), 1), had_by(7, 30.0))]);
        let verdict = endless(&[effect(1, 10.0, 99.0)], &unknown, &Excuse { frozen: &[], wake: 1.0 });
        assert_eq!((verdict.checked, verdict.violations), (0, 0));
    }
}
