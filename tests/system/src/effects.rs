//! What jobs do in the world, written down by themselves and forced to disk: a job that runs twice leaves two traces, whatever the
//! database says about it.
//!
//! The command of such a job writes a line when it begins, one for each tenth of a second that it lives, and one when it has done its
//! work. The checker matches these with the attempts: what is reported as done was done, nothing was done that no attempt accounts
//! for, and no two attempts of a dispatch worked at the same time.

use std::collections::BTreeMap;
use std::path::PathBuf;

use tempfile::TempDir;
use test_support::{Client, wait_for};

use crate::PATIENCE;

/// How long after it wakes a worker that was frozen may need to kill what it has no right to any more.
const WAKE: f64 = 1.5;

/// The log that the jobs of a test write to.
#[derive(Debug)]
pub struct Effects {
    folder: TempDir,
}

/// One effect: what one attempt did.
#[derive(Debug, Clone)]
struct Effect {
    dispatch: String,
    attempt: i32,
    pid: i32,
    began: f64,
    /// The last sign of life.
    seen: f64,
    is_complete: bool,
}

/// From when to when, in seconds since the epoch, a worker was frozen or the machine kept from acting otherwise.
#[derive(Debug, Clone, Copy)]
pub struct Frozen {
    /// When it was frozen.
    pub from: f64,
    /// When it could act again.
    pub until: f64,
}

impl Effects {
    /// An empty log.
    ///
    /// # Panics
    /// When there is no room for it.
    #[must_use]
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a folder for the effect log") }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("effects")
    }

    /// The command of a job that works for as many tenths of a second as `$work` says after `prepare` has run, which may look at
    /// `$SCHED_ATTEMPT`.
    #[must_use]
    pub fn command(&self, prepare: &str) -> String {
        let log = self.mark();
        format!(
            "export EFFECTS={log}; note() {{ echo \"$1 $SCHED_DISPATCH_ID $SCHED_ATTEMPT $$ $(date +%s.%N)\" >> {log}; sync {log}; }}
             work=0; {prepare}
             note begin
             while [ $work -gt 0 ]; do sleep 0.1; note alive; work=$((work - 1)); done
             note end"
        )
    }

    /// What stands in the environment or in the command line of every process of such a job.
    #[must_use]
    pub fn mark(&self) -> String {
        self.path().display().to_string()
    }

    /// How many lines of a kind (`begin`, `alive`, `end`) there are.
    #[must_use]
    pub fn count(&self, kind: &str) -> usize {
        self.read().lines().filter(|line| line.split(' ').next() == Some(kind)).count()
    }

    /// Waits until there are `least` lines of a kind.
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
        std::fs::read_to_string(self.path()).unwrap_or_default()
    }

    fn effects(&self) -> Vec<Effect> {
        let mut effects = BTreeMap::<(String, i32, i32), Effect>::new();
        for line in self.read().lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let [kind, dispatch, attempt, pid, at] = words[..] else { panic!("{line:?} is no effect") };
            let number = |word: &str| word.parse::<i32>().expect("a number");
            let (attempt, pid, at) = (number(attempt), number(pid), at.parse::<f64>().expect("an instant"));
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

    /// What the effects say against the history, each with the rule it breaks; nothing when all is well. A worker that is frozen
    /// cannot kill its work, so what overlaps while it is, or just afterwards, is nobody's fault.
    ///
    /// # Panics
    /// When the database cannot be asked.
    pub async fn broken(&self, sql: &Client, frozen: &[Frozen]) -> Vec<String> {
        let effects = self.effects();
        let mut broken = overlaps(&effects, frozen);
        broken.extend(repeated(&effects));
        let attempts = attempts(sql).await;
        for effect in &effects {
            if !attempts.contains_key(&(effect.dispatch.clone(), effect.attempt)) {
                broken.push(format!("effects: one that no attempt accounts for: {effect:?}"));
            }
        }
        for ((dispatch, attempt), status) in attempts.iter().filter(|(_, status)| *status == "COMPLETED") {
            let is_done = |effect: &Effect| {
                effect.dispatch == *dispatch && effect.attempt == *attempt && effect.is_complete
            };
            if !effects.iter().any(is_done) {
                broken.push(format!("effects: attempt {attempt} of {dispatch} is {status} and was not done"));
            }
        }
        broken
    }
}

impl Default for Effects {
    fn default() -> Self {
        Self::new()
    }
}

/// Effects of one dispatch that were there at the same time.
fn overlaps(effects: &[Effect], frozen: &[Frozen]) -> Vec<String> {
    let is_excused = |at: f64| frozen.iter().any(|frozen| (frozen.from..frozen.until + WAKE).contains(&at));
    let mut broken = Vec::new();
    for earlier in effects {
        for later in effects.iter().filter(|later| later.dispatch == earlier.dispatch) {
            let is_later = (later.began, later.pid) > (earlier.began, earlier.pid);
            if is_later && earlier.seen > later.began && !is_excused(earlier.seen) {
                broken.push(format!("effects: two of one dispatch overlap: {earlier:?} and {later:?}"));
            }
        }
    }
    broken
}

/// Attempts that ran more than once.
fn repeated(effects: &[Effect]) -> Vec<String> {
    let mut counted = BTreeMap::<(&str, i32), usize>::new();
    for effect in effects {
        *counted.entry((&effect.dispatch, effect.attempt)).or_default() += 1;
    }
    let repeated = counted.into_iter().filter(|(_, count)| *count > 1);
    repeated.map(|(attempt, count)| format!("effects: {attempt:?} ran {count} times")).collect()
}

/// The attempts of all dispatches whose handler writes effects, with how they ended; running ones included.
async fn attempts(sql: &Client) -> BTreeMap<(String, i32), String> {
    let statement = "SELECT dispatch_id::text, attempt, status FROM job_execution_log
                     UNION ALL SELECT id::text, attempt, status FROM job_dispatch WHERE status = 'IN_PROGRESS'";
    let rows = sql.query(statement, &[]).await.expect("the history can be read");
    rows.into_iter().map(|row| ((row.get(0), row.get(1)), row.get(2))).collect()
}
