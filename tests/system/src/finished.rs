//! A run that is over, and everything that is known of it: the tables, the effects, what clients were answered, which faults there were, and when
//! jobs should have fired according to an oracle that is not our code.
//!
//! What lies outside the database is loaded into a schema of its own there, so that each question is one statement. Expected fire times are matched with
//! dispatches or skips, these with attempts, these with effects. Decides and reports; the product's tables are only read.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{fs, io::Write, thread};

use serde_json::Value;
use test_support::Client;

use crate::finished_checks::OF_RUN;
use crate::{Effects, Frozen, Verdict, checks};

/// How far beyond what is settled the oracle looks, in seconds: to the next fire of each job.
const AHEAD: i64 = 300;

const SCHEMA: &str = "
    DROP SCHEMA IF EXISTS run CASCADE;
    CREATE SCHEMA run;
    CREATE TABLE run.fires (job_id uuid, at timestamptz, version bigint, PRIMARY KEY (job_id, at));
    CREATE TABLE run.faults (kind text, target text, began timestamptz, ended timestamptz);
    CREATE TABLE run.answers (at timestamptz, action text, tenant text, target text, key text, status integer, id uuid, version bigint,
                              state text, is_foreign boolean);
    CREATE TABLE run.quiet (at timestamptz);";

/// The jobs whose fire times the oracle is asked for, with all they have been set to. What is built in is left out.
const JOBS: &str = "
    WITH input AS (SELECT (extract(epoch FROM now()) * 1000000)::bigint + $1::bigint * 1000000 AS until)
    SELECT jsonb_build_object('until', input.until, 'jobs', (
        SELECT coalesce(jsonb_agg(jsonb_build_object('id', j.id, 'created_at', (extract(epoch FROM j.created_at) * 1000000)::bigint, 'versions', (
            SELECT coalesce(jsonb_agg(jsonb_build_object('version', v.version, 'settings', v.settings,
                                                         'changed_at', (extract(epoch FROM v.changed_at) * 1000000)::bigint)), '[]')
            FROM scheduled_job_versions v WHERE v.tenant_id = j.tenant_id AND v.job_id = j.id))), '[]')
        FROM scheduled_jobs j WHERE j.scope = 'project'))::text
    FROM input";

/// What is known of a run besides its database.
#[derive(Debug)]
pub struct FinishedRun {
    /// What jobs did.
    pub effects: Effects,
    /// The faults: JSON lines with `kind`, `target`, and `began` and `ended` in seconds since the epoch.
    pub timeline: PathBuf,
    /// What clients were answered: JSON lines with the columns of `run.answers`, `at` in seconds since the epoch.
    pub answers: PathBuf,
    /// When the last fault was over, in seconds since the epoch.
    pub quiet_at: f64,
    /// The Python that has what the oracle needs.
    pub python: PathBuf,
}

impl FinishedRun {
    /// Decides every invariant.
    ///
    /// # Panics
    /// When something that is known of the run cannot be read, or the oracle does not understand a schedule.
    pub async fn verdicts(&self, sql: &Client) -> Vec<Verdict> {
        sql.batch_execute(SCHEMA).await.expect("a schema for what is known of the run");
        let faults = lines(&self.timeline);
        self.load(sql, &faults).await;
        self.expect_fires(sql).await;
        let mut verdicts = checks::decide(sql, checks::OF_HISTORY).await;
        verdicts.extend(checks::decide(sql, OF_RUN).await);
        verdicts.extend(self.effects.verdicts(sql, &frozen(&faults)).await);
        verdicts
    }

    async fn load(&self, sql: &Client, faults: &[Value]) {
        let faults = Value::Array(faults.to_vec()).to_string();
        let into_faults = "INSERT INTO run.faults SELECT f.kind, f.target, to_timestamp(f.began), to_timestamp(f.ended)
             FROM jsonb_to_recordset($1::text::jsonb) AS f (kind text, target text, began double precision, ended double precision)";
        sql.execute(into_faults, &[&faults]).await.expect("the faults can be loaded");
        let answers = Value::Array(lines(&self.answers)).to_string();
        let into_answers = "INSERT INTO run.answers
             SELECT to_timestamp(a.at), a.action, a.tenant, a.target, a.key, a.status, a.id, a.version, a.state, a.is_foreign
             FROM jsonb_to_recordset($1::text::jsonb) AS a (at double precision, action text, tenant text, target text, key text, status integer,
                                                            id uuid, version bigint, state text, is_foreign boolean)";
        sql.execute(into_answers, &[&answers]).await.expect("the answers can be loaded");
        let quiet = "INSERT INTO run.quiet VALUES (to_timestamp($1::double precision))";
        sql.execute(quiet, &[&self.quiet_at]).await.expect("the end of the faults can be loaded");
    }

    /// Asks the oracle when every job should have fired.
    async fn expect_fires(&self, sql: &Client) {
        let jobs: String = sql.query_one(JOBS, &[&AHEAD]).await.expect("the jobs can be read").get(0);
        let told = ask(&self.python, jobs);
        let (mut ids, mut instants, mut versions) = (Vec::new(), Vec::<i64>::new(), Vec::<i64>::new());
        for line in told.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let [id, at, version] = words[..] else { panic!("the oracle says {line:?}") };
            ids.push(id.to_owned());
            instants.push(at.parse().expect("microseconds"));
            versions.push(version.parse().expect("a version"));
        }
        let into_fires = "INSERT INTO run.fires
             SELECT f.id::uuid, timestamptz 'epoch' + f.at * interval '1 microsecond', f.version
             FROM unnest($1::text[], $2::bigint[], $3::bigint[]) AS f (id, at, version)";
        sql.execute(into_fires, &[&ids, &instants, &versions]).await.expect("the fire times can be loaded");
        sql.batch_execute(
            // The product has no use for these; the checker of a long run has.
            "CREATE INDEX ON job_execution_log (dispatch_id); CREATE INDEX ON maintenance.job_execution_log (dispatch_id);
             CREATE INDEX ON witness.transitions (dispatch_id);
             ANALYZE run.fires; ANALYZE job_dispatch; ANALYZE skipped_fires; ANALYZE job_execution_log",
        )
        .await
        .expect("indexes and statistics");
    }
}

/// What the oracle answers to `jobs`.
fn ask(python: &Path, jobs: String) -> String {
    let oracle = Path::new(env!("CARGO_MANIFEST_DIR")).join("checker/oracle.py");
    let mut child = Command::new(python)
        .arg(oracle)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("cannot run the oracle with {}: {error}", python.display()));
    let mut stdin = child.stdin.take().expect("its standard input");
    // It writes before it has read everything.
    let writer = thread::spawn(move || stdin.write_all(jobs.as_bytes()));
    let output = child.wait_with_output().expect("the oracle ends");
    writer.join().expect("no panic").expect("the oracle reads");
    assert!(output.status.success(), "the oracle failed ({})", output.status);
    String::from_utf8(output.stdout).expect("text")
}

/// The objects of a file of JSON lines.
fn lines(path: &Path) -> Vec<Value> {
    let text =
        fs::read_to_string(path).unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()));
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}")))
        .collect()
}

/// When workers were frozen.
fn frozen(faults: &[Value]) -> Vec<Frozen> {
    let of_worker = faults.iter().filter(|fault| {
        fault["kind"] == "freeze"
            && fault["target"].as_str().is_some_and(|target| target.starts_with("worker"))
    });
    of_worker
        .map(|fault| Frozen {
            from: fault["began"].as_f64().expect("an instant"),
            until: fault["ended"].as_f64().expect("an instant"),
        })
        .collect()
}
