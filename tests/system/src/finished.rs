//! The check of a finished run, with all its data: the tables, the effects, the answers, the
//! faults, and the fire times of an independent oracle.
//!
//! Data from outside the database is loaded into a separate schema, so that each check is one
//! statement. The checks match expected fire times with dispatches or skips, dispatches with
//! attempts, and attempts with effects. The tables of the product are only read.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{fs, io::Write, thread};

use serde_json::Value;
use test_support::Client;

use crate::finished_checks::{OF_RUN, OF_STREAM};
use crate::lateness::{self, Fault, Outage};
use crate::{Effects, Frozen, Verdict, checks, counting, ends};

/// Seconds after now for which the oracle computes fire times: the next fire of each job is
/// included.
const AHEAD: i64 = 300;

const SCHEMA: &str = "
    DROP SCHEMA IF EXISTS run CASCADE;
    CREATE SCHEMA run;
    CREATE TABLE run.fires (job_id uuid, at timestamptz, version bigint, is_excluded boolean, PRIMARY KEY (job_id, at));
    CREATE TABLE run.faults (kind text, target text, began timestamptz, ended timestamptz, detail text, process integer);
    CREATE TABLE run.answers (at timestamptz, action text, tenant text, target text, key text, status integer, id uuid, version bigint,
                              state text, is_foreign boolean);
    CREATE TABLE run.quiet (at timestamptz);
    CREATE TABLE run.pooled (name text);
    CREATE TABLE run.stream (line bigint GENERATED ALWAYS AS IDENTITY, at timestamptz, connection integer, message text, position text, event_type text);
    -- Positions are server, transaction, event and instant, in hexadecimal digits.
    CREATE FUNCTION run.part(position_ text, number integer) RETURNS bigint LANGUAGE sql IMMUTABLE AS
        $$ SELECT ('x' || lpad(split_part(position_, '.', number), 16, '0'))::bit(64)::bigint $$;
    CREATE VIEW run.told AS SELECT line, connection, event_type, run.part(position, 2) AS transaction_id, run.part(position, 3) AS id
        FROM run.stream WHERE message = 'event';
    -- From the first message, which precedes all later events, to the last event at the time when
    -- the follower was stopped.
    CREATE VIEW run.followed AS SELECT run.part(o.position, 2) AS from_transaction, run.part(o.position, 3) AS from_id,
               run.part(u.position, 2) AS until_transaction, run.part(u.position, 3) AS until_id
        FROM (SELECT position FROM run.stream WHERE message = 'open' ORDER BY line LIMIT 1) o,
             (SELECT position FROM run.stream WHERE message = 'until' ORDER BY line DESC LIMIT 1) u;
    -- The lost attempts, and the daemon of each.
    CREATE VIEW run.lost AS SELECT l.dispatch_id, l.attempt, l.worker_id, l.started_at, l.completed_at, w.process_id, (
            SELECT s.target FROM run.faults s WHERE s.kind = 'start' AND s.process = w.process_id AND s.began <= l.completed_at
            ORDER BY s.began DESC LIMIT 1) AS worker
        FROM (SELECT * FROM job_execution_log UNION ALL SELECT * FROM maintenance.job_execution_log) l
        LEFT JOIN witness.workers w ON w.worker_id = l.worker_id WHERE l.status = 'LOST';
    -- Ends that trigger dependent jobs, and whether each end is a separate run. A job that depends
    -- on several ends runs only after the last one.
    CREATE VIEW run.followed_ends AS SELECT d.job_id, e.id AS dispatch_id, e.completed_at AS at,
            j.after_mode = 'any' OR (SELECT count(*) FROM job_dependencies o WHERE o.tenant_id = d.tenant_id AND o.job_id = d.job_id) = 1 AS is_each_a_run
        FROM job_dependencies d JOIN scheduled_jobs j ON j.tenant_id = d.tenant_id AND j.id = d.job_id
        JOIN job_dispatch e ON e.job_id = d.after_job_id AND e.completed_at > d.since
         AND ((d.condition IN ('success', 'completion') AND e.status = 'COMPLETED')
              OR (d.condition IN ('failure', 'completion') AND e.status IN ('FAILED', 'TIMEOUT', 'DEAD_LETTER')))
        WHERE d.job_id IN (SELECT job_id FROM witness.unchanged_jobs);
    -- A scheduler that was frozen reports its state before the freeze until it reads the database
    -- again. The scheduler with the latest term leads; each of the others must have been frozen.
    CREATE VIEW run.doubled AS SELECT a.at, a.target, a.state, NOT EXISTS (
            SELECT FROM (
                SELECT l.name, row_number() OVER (ORDER BY l.term DESC) AS nth, rank() OVER (ORDER BY l.term DESC) AS rank
                FROM unnest(string_to_array(a.state, ','), ARRAY(SELECT t::bigint FROM jsonb_array_elements_text(a.target::jsonb) AS t)) AS l (name, term)
            ) AS l
            WHERE l.nth > 1 AND (l.rank = 1 OR NOT EXISTS (
                SELECT FROM run.faults f WHERE f.kind = 'freeze' AND f.target = l.name
                   AND a.at BETWEEN f.began AND f.ended + interval '2 seconds'))) AS is_excused
        FROM run.answers a WHERE a.action = 'roles' AND a.is_foreign;";

/// Fire times that were recorded later than any excuse allows, with due time and record time.
const LATE: &str = "
    SELECT j.name, extract(epoch FROM f.due)::double precision, extract(epoch FROM f.made)::double precision, f.what FROM (
        SELECT job_id, scheduled_for AS due, created_at AS made, 'dispatched' AS what FROM job_dispatch WHERE trigger_id IS NULL
        UNION ALL SELECT job_id, first_fire_at, at, 'skipped: ' || reason FROM witness.skips WHERE trigger_id IS NULL AND reason = 'misfire') f
    JOIN scheduled_jobs j ON j.id = f.job_id AND j.scope = 'project'
    WHERE f.made > f.due + $1::double precision * interval '1 second'";

/// Attempts lost with a killed worker, with the time of the kill and the time at which the leader
/// ended them.
const ORPHAN_ATTEMPTS: &str = "
    SELECT l.dispatch_id::text, l.attempt, extract(epoch FROM max(f.began))::double precision, extract(epoch FROM l.completed_at)::double precision
    FROM run.lost l JOIN run.faults f ON f.kind = 'kill' AND f.process = l.process_id AND f.began BETWEEN l.started_at AND l.completed_at
    GROUP BY 1, 2, 4";
/// Maximal rest of the lease of a killed worker, in seconds.
const WORKER_LEASE: f64 = 5.0;

/// Times are seconds since the epoch.
struct OrphanAttempt {
    what: String,
    killed: f64,
    taken: f64,
}

/// Checks that the attempts of killed workers ended in time. `kills` is the number of kills, some
/// of workers without attempts.
fn recovered(orphans: &[OrphanAttempt], kills: usize, outages: &[Outage], schedulers: &[String]) -> Verdict {
    let (mut rows, mut excused) = (Vec::new(), 0);
    for OrphanAttempt { what, killed, taken } in orphans {
        let due = killed + WORKER_LEASE;
        if *taken <= due + lateness::STRETCH {
            continue;
        }
        if lateness::is_excused(due, *taken, outages, schedulers) {
            excused += 1;
        } else {
            rows.push(format!("{what}, {:.1} s after its worker was killed", taken - killed));
        }
    }
    let rule = "8: attempts of a killed worker end within its lease and 15 s, if the database and a scheduler had no fault for so long";
    Verdict::new(rule, kills, rows).with_excused(excused)
}

/// The jobs for the oracle, with all versions of their settings, without built-in jobs.
const JOBS: &str = "
    WITH input AS (SELECT (extract(epoch FROM now()) * 1000000)::bigint + $1::bigint * 1000000 AS until)
    SELECT jsonb_build_object('until', input.until, 'jobs', (
        SELECT coalesce(jsonb_agg(jsonb_build_object('id', j.id, 'created_at', (extract(epoch FROM j.created_at) * 1000000)::bigint,
            'calendars', (SELECT coalesce(jsonb_object_agg(c.name, c.definition), '{}') FROM calendars c WHERE c.tenant_id = j.tenant_id AND EXISTS (
                SELECT FROM scheduled_job_versions v WHERE v.tenant_id = j.tenant_id AND v.job_id = j.id AND v.settings->'calendars' ? c.name)), 'versions', (
            SELECT coalesce(jsonb_agg(jsonb_build_object('version', v.version, 'settings', v.settings,
                                                         'changed_at', (extract(epoch FROM v.changed_at) * 1000000)::bigint)), '[]')
            FROM scheduled_job_versions v WHERE v.tenant_id = j.tenant_id AND v.job_id = j.id))), '[]')
        FROM scheduled_jobs j WHERE j.scope = 'project'))::text
    FROM input";

#[derive(Debug)]
pub struct FinishedRun {
    pub effects: Effects,
    /// The faults that took place: JSON lines with `kind`, `target`, `detail`, `began` and `ended`,
    /// and `process` for a fault of a process. Times are seconds since the epoch.
    pub timeline: PathBuf,
    /// The answers to clients: JSON lines with the columns of `run.answers`; `at` is in seconds
    /// since the epoch.
    pub answers: PathBuf,
    /// The messages of the event stream, if a client followed it: JSON lines with the columns of
    /// `run.stream`; `at` is in seconds since the epoch.
    pub stream: Option<PathBuf>,
    /// Empty if no fault affects a single scheduler.
    pub schedulers: Vec<String>,
    /// Daemons that reach the database through the pooler.
    pub pooled: Vec<String>,
    /// End of the last fault, in seconds since the epoch.
    pub quiet_at: f64,
    pub python: PathBuf,
}

fn ended_by_themselves(faults: &[Value]) -> Verdict {
    let of_exit = faults.iter().filter(|fault| fault["kind"] == "exit");
    let rows =
        of_exit.map(|fault| format!("{} ended by itself: {}", fault["target"], fault["detail"])).collect();
    Verdict::new("stop: no daemon exited without an order", faults.len(), rows)
}

pub(crate) async fn prepare(sql: &Client) {
    sql.batch_execute(SCHEMA).await.expect("the schema can be created");
}

impl FinishedRun {
    /// Checks every invariant.
    ///
    /// # Panics
    /// When data of the run cannot be read, or the oracle does not understand a schedule.
    pub async fn verdicts(&self, sql: &Client) -> Vec<Verdict> {
        prepare(sql).await;
        let faults = lines(&self.timeline);
        self.load(sql, &faults).await;
        self.expect_fires(sql).await;
        let mut verdicts = checks::decide(sql, checks::OF_HISTORY).await;
        let outages = self.outages(&faults);
        verdicts.push(self.timeliness(sql, &outages).await);
        verdicts.extend(self.recovery(sql, &faults, &outages).await);
        verdicts.push(counting::in_time(sql, &outages, &self.schedulers).await);
        verdicts.push(ended_by_themselves(&faults));
        verdicts.push(ends::ended_on_request(&faults, &self.pooled));
        verdicts.extend(checks::decide(sql, OF_RUN).await);
        let excused = sql.query_one("SELECT count(*) FROM run.doubled WHERE is_excused", &[]).await;
        let excused: i64 = excused.expect("the roles can be read").get(0);
        for verdict in
            verdicts.iter_mut().filter(|verdict| verdict.invariant.starts_with("1: no two schedulers"))
        {
            verdict.excused = excused;
        }
        if self.stream.is_some() {
            verdicts.extend(checks::decide(sql, OF_STREAM).await);
        }
        verdicts.extend(self.effects.verdicts(sql, &frozen(&faults)).await);
        verdicts
    }

    async fn load(&self, sql: &Client, faults: &[Value]) {
        let faults = Value::Array(faults.to_vec()).to_string();
        let into_faults = "INSERT INTO run.faults SELECT f.kind, f.target, to_timestamp(f.began), to_timestamp(f.ended), f.detail, f.process
             FROM jsonb_to_recordset($1::text::jsonb) AS f (kind text, target text, began double precision, ended double precision, detail text,
                                                            process integer)";
        sql.execute(into_faults, &[&faults]).await.expect("the faults can be loaded");
        let answers = Value::Array(lines(&self.answers)).to_string();
        let into_answers = "INSERT INTO run.answers
             SELECT to_timestamp(a.at), a.action, a.tenant, a.target, a.key, a.status, a.id, a.version, a.state, a.is_foreign
             FROM jsonb_to_recordset($1::text::jsonb) AS a (at double precision, action text, tenant text, target text, key text, status integer,
                                                            id uuid, version bigint, state text, is_foreign boolean)";
        sql.execute(into_answers, &[&answers]).await.expect("the answers can be loaded");
        if let Some(stream) = &self.stream {
            let output = Value::Array(lines(stream)).to_string();
            let into_stream = "INSERT INTO run.stream (at, connection, message, position, event_type)
                 SELECT to_timestamp((s.told->>'at')::double precision), (s.told->>'connection')::integer, s.told->>'message', s.told->>'position', s.told->>'event_type'
                 FROM jsonb_array_elements($1::text::jsonb) WITH ORDINALITY AS s (told, line) ORDER BY s.line";
            sql.execute(into_stream, &[&output]).await.expect("the stream can be loaded");
        }
        let pooled = "INSERT INTO run.pooled SELECT unnest($1::text[])";
        sql.execute(pooled, &[&self.pooled]).await.expect("the names can be loaded");
        let quiet = "INSERT INTO run.quiet VALUES (to_timestamp($1::double precision))";
        sql.execute(quiet, &[&self.quiet_at]).await.expect("the end of the faults can be loaded");
    }

    fn outages(&self, faults: &[Value]) -> Vec<Outage> {
        let pooled = self.pooled.iter().find(|name| self.schedulers.contains(name));
        let pooled = pooled.map_or("", String::as_str);
        let outage = |fault: &Value| {
            let fault = Fault {
                kind: fault["kind"].as_str()?,
                target: fault["target"].as_str()?,
                began: fault["began"].as_f64()?,
                ended: fault["ended"].as_f64()?,
            };
            Outage::of(fault, pooled)
        };
        faults.iter().filter_map(outage).collect()
    }

    /// Checks that the attempts of killed workers end once the lease has expired, unless faults
    /// prevent it. `None` without a kill.
    async fn recovery(&self, sql: &Client, faults: &[Value], outages: &[Outage]) -> Option<Verdict> {
        let is_kill = |fault: &&Value| {
            fault["kind"] == "kill"
                && fault["target"].as_str().is_some_and(|target| target.starts_with("worker-"))
        };
        let kills = faults.iter().filter(is_kill).count();
        let rows = sql.query(ORPHAN_ATTEMPTS, &[]).await.expect("the lost attempts can be read");
        let orphans: Vec<OrphanAttempt> = rows
            .iter()
            .map(|row| {
                let (dispatch, attempt): (String, i32) = (row.get(0), row.get(1));
                OrphanAttempt {
                    what: format!("attempt {attempt} of {dispatch}"),
                    killed: row.get(2),
                    taken: row.get(3),
                }
            })
            .collect();
        (kills > 0 || !orphans.is_empty()).then(|| recovered(&orphans, kills, outages, &self.schedulers))
    }

    async fn timeliness(&self, sql: &Client, outages: &[Outage]) -> Verdict {
        let late = sql.query(LATE, &[&lateness::STRETCH]).await.expect("the fire times can be read");
        let (mut rows, mut excused) = (Vec::new(), 0);
        for row in late {
            let (job, due, created, what): (String, f64, f64, String) =
                (row.get(0), row.get(1), row.get(2), row.get(3));
            if lateness::is_excused(due, created, outages, &self.schedulers) {
                excused += 1;
            } else {
                rows.push(format!("{job}, due at {due:.3}, {:.1} s later {what}", created - due));
            }
        }
        let count = "SELECT count(*) FROM job_dispatch WHERE trigger_id IS NULL";
        let count: i64 = sql.query_one(count, &[]).await.expect("the dispatches can be counted").get(0);
        let rule = "2: fire times are handled in time (15 s), if the database and a scheduler had no fault for so long";
        Verdict::new(rule, usize::try_from(count).unwrap_or(0), rows).with_excused(excused)
    }

    async fn expect_fires(&self, sql: &Client) {
        let jobs: String = sql.query_one(JOBS, &[&AHEAD]).await.expect("the jobs can be read").get(0);
        let output = run_checker(&self.python, jobs);
        let (mut ids, mut instants, mut versions, mut exclusions) =
            (Vec::new(), Vec::<i64>::new(), Vec::<i64>::new(), Vec::new());
        for line in output.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let [id, at, version, is_excluded] = words[..] else {
                panic!("unexpected line of the oracle: {line:?}")
            };
            ids.push(id.to_owned());
            instants.push(at.parse().expect("the instant is in microseconds"));
            versions.push(version.parse().expect("the version is a number"));
            exclusions.push(is_excluded == "1");
        }
        let into_fires = "INSERT INTO run.fires
             SELECT f.id::uuid, timestamptz 'epoch' + f.at * interval '1 microsecond', f.version, f.is_excluded
             FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::boolean[]) AS f (id, at, version, is_excluded)";
        sql.execute(into_fires, &[&ids, &instants, &versions, &exclusions])
            .await
            .expect("the fire times can be loaded");
        sql.batch_execute(
            // For the check of a long run; the product does not need these indexes.
            "CREATE INDEX ON job_execution_log (dispatch_id); CREATE INDEX ON maintenance.job_execution_log (dispatch_id);
             CREATE INDEX ON witness.transitions (dispatch_id);
             ANALYZE run.fires; ANALYZE job_dispatch; ANALYZE skipped_fires; ANALYZE job_execution_log",
        )
        .await
        .expect("indexes and statistics can be created");
    }
}

fn run_checker(python: &Path, jobs: String) -> String {
    let oracle = Path::new(env!("CARGO_MANIFEST_DIR")).join("checker/oracle.py");
    let mut child = Command::new(python)
        .arg(oracle)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("cannot run the oracle with {}: {error}", python.display()));
    let mut stdin = child.stdin.take().expect("the oracle has a standard input");
    // The oracle writes before it has read everything.
    let writer = thread::spawn(move || stdin.write_all(jobs.as_bytes()));
    let output = child.wait_with_output().expect("the oracle ends");
    writer.join().expect("the writer does not panic").expect("the oracle reads its input");
    assert!(output.status.success(), "the oracle failed ({})", output.status);
    String::from_utf8(output.stdout).expect("the output is text")
}

fn lines(path: &Path) -> Vec<Value> {
    let text =
        fs::read_to_string(path).unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()));
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}")))
        .collect()
}

fn frozen(faults: &[Value]) -> Vec<Frozen> {
    let of_worker = faults.iter().filter(|fault| {
        fault["kind"] == "freeze"
            && fault["target"].as_str().is_some_and(|target| target.starts_with("worker"))
    });
    of_worker
        .map(|fault| Frozen {
            process: fault["process"]
                .as_i64()
                .and_then(|id| i32::try_from(id).ok())
                .expect("the line has a process id"),
            from: fault["began"].as_f64().expect("the time is a number"),
            until: fault["ended"].as_f64().expect("the time is a number"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_of_a_killed_worker_must_end_in_time() {
        let orphans = |taken: f64| [OrphanAttempt { what: "attempt 1".to_owned(), killed: 100.0, taken }];
        let said = |taken: f64, outages: &[Outage]| {
            let verdict = recovered(&orphans(taken), 3, outages, &["scheduler-0".to_owned()]);
            (verdict.checked, verdict.excused, verdict.violations)
        };
        assert_eq!(said(120.0, &[]), (3, 0, 0));
        assert_eq!(said(120.1, &[]), (3, 0, 1));
        let crash = Fault { kind: "crash", target: "postgres", began: 110.0, ended: 112.0 };
        let outage = Outage::of(crash, "").unwrap();
        assert_eq!(said(120.1, &[outage]), (3, 1, 0));
    }
}
