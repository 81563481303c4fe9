//! The invariants of the protocol as SQL. One statement counts the covered items, another returns
//! the violating rows.
//!
//! Read-only, and independent of the code under test. `effects` and `finished` check invariants
//! that need more than tables.

use test_support::Client;

use crate::invariant::Invariant;
use crate::skip_checks::TRUE_SKIPS;
use crate::verdict::Verdict;

/// The invariants of the tables of the product and of the witness.
pub(crate) const OF_HISTORY: &[Invariant] = &[
    Invariant {
        name: "1: terms never overlap in time",
        checked: "SELECT count(*) FROM leader_terms",
        broken: "SELECT a.term, b.term FROM leader_terms a JOIN leader_terms b ON a.term < b.term
         WHERE coalesce(a.ended_at, 'infinity') > b.started_at",
    },
    Invariant {
        name: "1: no dispatch is older than its term or younger than the end of it",
        checked: "SELECT count(*) FROM job_dispatch WHERE term IS NOT NULL",
        broken: "SELECT d.id FROM job_dispatch d JOIN leader_terms t ON t.term = d.term
         WHERE d.created_at < t.started_at OR d.created_at > t.ended_at",
    },
    Invariant {
        name: "1: terms begin in the order of their numbers",
        checked: "SELECT count(*) FROM leader_terms",
        broken: "SELECT a.term, b.term FROM leader_terms a JOIN leader_terms b ON a.term < b.term WHERE a.started_at > b.started_at",
    },
    Invariant {
        name: "1: the open term is the leader's, and no other is open",
        checked: "SELECT count(*) FROM scheduler_instances FULL JOIN (SELECT * FROM leader_terms) t ON t.instance_id = scheduler_instances.id",
        broken: "SELECT i.id, i.term, t.term FROM (SELECT * FROM scheduler_instances WHERE is_leader) i
         FULL JOIN (SELECT * FROM leader_terms WHERE ended_at IS NULL) t ON t.term = i.term AND t.instance_id = i.id
         WHERE i.term IS NULL OR t.term IS NULL",
    },
    Invariant {
        name: "1: every dispatch of the schedule has an existing term and the holder of the term",
        checked: "SELECT count(*) FROM job_dispatch WHERE triggered_by = 'scheduler'",
        broken: "SELECT d.id FROM job_dispatch d LEFT JOIN leader_terms t ON t.term = d.term AND t.instance_id = d.scheduler_instance_id
         WHERE d.triggered_by = 'scheduler' AND t.term IS NULL",
    },
    Invariant {
        name: "1: no dispatch was committed after the end of its term, or before its beginning",
        checked: "SELECT count(*) FROM witness.commits",
        broken: "SELECT c.dispatch_id FROM witness.commits c JOIN leader_terms t ON t.term = c.term
         WHERE c.at > t.ended_at OR c.at < t.started_at",
    },
    Invariant {
        name: "1: no record of a skip was committed after the end of its term, or before its beginning",
        checked: "SELECT count(*) FROM witness.skips WHERE term IS NOT NULL",
        broken: "SELECT s.skip_id, s.job_id, s.term, s.at FROM witness.skips s LEFT JOIN leader_terms t ON t.term = s.term
         WHERE s.term IS NOT NULL AND (t.term IS NULL OR s.at > t.ended_at OR s.at < t.started_at)",
    },
    Invariant {
        name: "2: every fire time up to settled_until has a dispatch or is in a skip (interval jobs anchored at their creation)",
        checked: "SELECT coalesce(sum(greatest(floor(extract(epoch FROM settled_until - created_at) / (schedule_config->>'seconds')::numeric), 0)), 0)::bigint
         FROM scheduled_jobs WHERE job_type = 'interval' AND id IN (SELECT job_id FROM witness.unchanged_jobs) AND NOT schedule_config ? 'anchor'",
        broken: "SELECT j.name, fire.at FROM scheduled_jobs j
         CROSS JOIN LATERAL (SELECT make_interval(secs => (j.schedule_config->>'seconds')::double precision) AS period) p
         CROSS JOIN LATERAL generate_series(j.created_at + p.period, j.settled_until, p.period) AS fire (at)
         WHERE j.job_type = 'interval' AND j.id IN (SELECT job_id FROM witness.unchanged_jobs) AND NOT j.schedule_config ? 'anchor'
           AND fire.at >= coalesce(j.start_at, '-infinity') AND fire.at < coalesce(j.end_at, 'infinity')
           -- A job has no fire times after its last run.
           AND (j.fired_count < j.max_runs) IS NOT FALSE
           AND NOT EXISTS (SELECT 1 FROM job_dispatch d WHERE d.job_id = j.id AND d.scheduled_for = fire.at AND d.trigger_id IS NULL)
           AND NOT EXISTS (SELECT 1 FROM skipped_fires s WHERE s.job_id = j.id AND fire.at BETWEEN s.first_fire_at AND s.last_fire_at)",
    },
    Invariant {
        name: "2: settled_until is directly before the cursor",
        checked: "SELECT count(*) FROM scheduled_jobs WHERE next_run_at IS NOT NULL",
        broken: "SELECT j.name, j.settled_until, j.next_run_at FROM scheduled_jobs j
         CROSS JOIN LATERAL (SELECT make_interval(secs => (j.schedule_config->>'seconds')::double precision) AS period) p
         WHERE (j.next_run_at <= j.settled_until AND j.id IN (SELECT job_id FROM witness.unchanged_jobs))
            OR (j.job_type = 'interval' AND j.calendars = '{}' AND j.start_at IS NULL AND j.next_run_at > j.settled_until + p.period)",
    },
    Invariant {
        name: "2: no fire time has both a dispatch and a skip",
        checked: "SELECT count(*) FROM job_dispatch WHERE trigger_id IS NULL",
        broken: "SELECT d.id FROM job_dispatch d JOIN skipped_fires s ON s.job_id = d.job_id
           AND d.scheduled_for BETWEEN s.first_fire_at AND s.last_fire_at WHERE d.trigger_id IS NULL",
    },
    TRUE_SKIPS,
    Invariant {
        name: "2: the ledger has no gap (fire times without a running scheduler are none)",
        checked: "SELECT count(*) FROM occurrence_ledger",
        broken: "SELECT kind, job_name, at, detail FROM ledger_gaps WHERE kind <> 'overdue'",
    },
    Invariant {
        name: "3: no fire time twice",
        checked: "SELECT count(*) FROM job_dispatch WHERE triggered_by = 'scheduler'",
        broken: "SELECT job_id, scheduled_for FROM job_dispatch WHERE triggered_by = 'scheduler' GROUP BY 1, 2 HAVING count(*) > 1",
    },
    Invariant {
        name: "3: no claim token twice",
        checked: "SELECT count(*) FROM (SELECT * FROM job_execution_log UNION ALL SELECT * FROM maintenance.job_execution_log) l",
        broken: "SELECT claim_token FROM (SELECT claim_token FROM job_execution_log UNION ALL SELECT claim_token FROM maintenance.job_execution_log) l
         GROUP BY 1 HAVING count(*) > 1",
    },
    Invariant {
        name: "3: attempts are 1..n without gaps",
        checked: "SELECT count(*) FROM job_dispatch",
        broken: "SELECT d.id FROM job_dispatch d
         LEFT JOIN (SELECT dispatch_id, count(*) AS n, count(DISTINCT attempt) AS numbers, min(attempt) AS first, max(attempt) AS last FROM
                    -- The record of an expired run is no attempt.
                    (SELECT dispatch_id, attempt, status FROM job_execution_log
                     UNION ALL SELECT dispatch_id, attempt, status FROM maintenance.job_execution_log) a
                    WHERE status <> 'EXPIRED' GROUP BY 1) l ON l.dispatch_id = d.id
         WHERE (l.n, l.numbers, l.first) IS DISTINCT FROM (l.last, l.last, CASE WHEN l.n > 0 THEN 1 END)
            OR coalesce(l.n, 0) <> d.attempt - (d.status = 'IN_PROGRESS')::integer",
    },
    Invariant {
        name: "4: attempts of a dispatch do not overlap unless the earlier was lost",
        checked: "SELECT count(*) FROM job_execution_log",
        broken: "SELECT a.id, b.id FROM job_execution_log a JOIN job_execution_log b ON a.dispatch_id = b.dispatch_id AND a.attempt < b.attempt
         WHERE a.completed_at > b.started_at AND a.status <> 'LOST'",
    },
    Invariant {
        name: "5: active_dispatches is the number of open dispatches",
        checked: "SELECT count(*) FROM scheduled_jobs",
        // Runs that are not counted yet are added, and ends subtracted.
        broken: "SELECT j.name, j.active_dispatches, coalesce(u.closed, 0) FROM scheduled_jobs j
         LEFT JOIN (SELECT e.job_id, count(*) AS closed
                    FROM uncounted_ends o
                    JOIN run_end_batches b ON b.transaction_id = o.transaction_id AND b.id = o.batch_id
                    CROSS JOIN LATERAL unnest(b.job_ids, b.outcomes, b.dispatch_statuses) AS e (job_id, outcome, status)
                    WHERE coalesce(e.status, e.outcome, 'COMPLETED') <> 'PENDING'
                    GROUP BY e.job_id) u ON u.job_id = j.id
         WHERE j.active_dispatches - coalesce(u.closed, 0)
               + (SELECT coalesce(sum(o.opened), 0) FROM uncounted_openings o WHERE o.job_id = j.id)
             <> (SELECT count(*) FROM job_dispatch d WHERE d.job_id = j.id AND d.completed_at IS NULL)",
    },
    Invariant {
        name: "5: queued_dispatches is the number of queued dispatches, and none is queued while the job has room",
        checked: "SELECT count(*) FROM scheduled_jobs",
        broken: "SELECT j.name, j.queued_dispatches FROM scheduled_jobs j
         WHERE j.queued_dispatches <> (SELECT count(*) FROM job_dispatch d WHERE d.job_id = j.id AND d.claimable_at = 'infinity')
            OR (j.queued_dispatches > 0 AND j.active_dispatches - j.queued_dispatches < j.max_instances
                -- Dispatches of a paused project or function are also queued.
                AND NOT EXISTS (SELECT 1 FROM projects o WHERE o.id = j.project_id AND o.is_paused)
                AND NOT EXISTS (SELECT 1 FROM task_functions f WHERE f.id = j.task_function_id AND f.is_paused))",
    },
    Invariant {
        name: "5: max_instances is never exceeded by attempts that were not lost",
        checked: "SELECT count(*) FROM job_execution_log l JOIN scheduled_jobs j ON j.id = l.job_id
         WHERE l.status <> 'LOST' AND j.overlap_policy <> 'allow' AND j.id IN (SELECT job_id FROM witness.unchanged_jobs)",
        broken: "WITH attempts AS (SELECT l.job_id, l.id, l.started_at, l.completed_at FROM job_execution_log l
                           JOIN scheduled_jobs j ON j.id = l.job_id WHERE l.status <> 'LOST' AND j.overlap_policy <> 'allow' AND j.id IN (SELECT job_id FROM witness.unchanged_jobs)),
         -- The number of running attempts whenever one begins; an attempt that ends at that instant
         -- does not count.
         running AS (SELECT e.job_id, e.id, e.change, sum(e.change) OVER (PARTITION BY e.job_id ORDER BY e.at, e.change) AS count
                       FROM (SELECT job_id, id, started_at AS at, 1 AS change FROM attempts
                             UNION ALL SELECT job_id, id, greatest(completed_at, started_at), -1 FROM attempts) e)
         SELECT r.job_id, r.id FROM running r JOIN scheduled_jobs j ON j.id = r.job_id WHERE r.change = 1 AND r.count > j.max_instances",
    },
    Invariant {
        name: "5: max_running of a queue is never exceeded by attempts that were not lost",
        checked: "SELECT count(*) FROM (SELECT * FROM job_execution_log UNION ALL SELECT * FROM maintenance.job_execution_log) l
         JOIN job_dispatch d ON d.id = l.dispatch_id JOIN queues q ON q.tenant_id = d.tenant_id AND q.name = d.queue
         WHERE l.status <> 'LOST' AND q.max_running IS NOT NULL AND l.started_at > q.updated_at",
        broken: "WITH attempts AS (SELECT q.tenant_id, q.name, q.max_running, l.id, l.started_at, l.completed_at
                           FROM (SELECT * FROM job_execution_log UNION ALL SELECT * FROM maintenance.job_execution_log) l
                           JOIN job_dispatch d ON d.id = l.dispatch_id
                           JOIN queues q ON q.tenant_id = d.tenant_id AND q.name = d.queue
                           -- Only attempts under the current limit.
                           WHERE l.status <> 'LOST' AND q.max_running IS NOT NULL AND l.started_at > q.updated_at),
         running AS (SELECT e.name, e.id, e.max_running, e.change, sum(e.change) OVER (PARTITION BY e.tenant_id, e.name ORDER BY e.at, e.change) AS count
                       FROM (SELECT tenant_id, name, max_running, id, started_at AS at, 1 AS change FROM attempts
                             UNION ALL SELECT tenant_id, name, max_running, id, greatest(completed_at, started_at), -1 FROM attempts) e)
         SELECT r.name, r.id FROM running r WHERE r.change = 1 AND r.count > r.max_running",
    },
    Invariant {
        name: "6: every transition is legal, and none leaves a final state",
        checked: "SELECT count(*) FROM witness.transitions WHERE was <> became",
        broken: "SELECT t.dispatch_id, t.was, t.became FROM witness.transitions t
         WHERE t.was <> t.became AND (t.was, t.became) NOT IN (
             ('new', 'PENDING'), ('PENDING', 'IN_PROGRESS'), ('PENDING', 'CANCELLED'), ('PENDING', 'FAILED'), ('IN_PROGRESS', 'PENDING'),
             ('IN_PROGRESS', 'COMPLETED'), ('IN_PROGRESS', 'FAILED'), ('IN_PROGRESS', 'TIMEOUT'),
             ('IN_PROGRESS', 'CANCELLED'), ('IN_PROGRESS', 'DEAD_LETTER'))",
    },
    Invariant {
        name: "6: each transition begins in the state in which the previous one ended",
        checked: "SELECT count(*) FROM witness.transitions",
        broken: "SELECT dispatch_id, was, before FROM (
             SELECT dispatch_id, was, lag(became) OVER (PARTITION BY dispatch_id ORDER BY id) AS before FROM witness.transitions) t
         WHERE before <> was",
    },
    Invariant {
        name: "6: the state of a dispatch is possible after its last attempt",
        checked: "SELECT count(DISTINCT dispatch_id) FROM job_execution_log",
        broken: "SELECT d.id, d.status, l.status FROM job_dispatch d
         JOIN (SELECT DISTINCT ON (dispatch_id) dispatch_id, status FROM
               (SELECT dispatch_id, status, attempt FROM job_execution_log
                UNION ALL SELECT dispatch_id, status, attempt FROM maintenance.job_execution_log) a
               ORDER BY dispatch_id, attempt DESC) l ON l.dispatch_id = d.id
         WHERE d.status <> 'CANCELLED' AND (l.status, d.status) NOT IN (
             ('EXPIRED', 'FAILED'), ('COMPLETED', 'COMPLETED'), ('FAILED', 'FAILED'), ('TIMEOUT', 'TIMEOUT'), ('LOST', 'TIMEOUT'),
             ('FAILED', 'DEAD_LETTER'), ('TIMEOUT', 'DEAD_LETTER'), ('LOST', 'DEAD_LETTER'),
             ('FAILED', 'PENDING'), ('TIMEOUT', 'PENDING'), ('LOST', 'PENDING'), ('RELEASED', 'PENDING'),
             ('FAILED', 'IN_PROGRESS'), ('TIMEOUT', 'IN_PROGRESS'), ('LOST', 'IN_PROGRESS'), ('RELEASED', 'IN_PROGRESS'))",
    },
    Invariant {
        name: "6: exactly the exhausted dispatches are dead letters, and the retry of one is a single, recorded dispatch",
        checked: "SELECT count(*) FROM dead_letters",
        broken: "SELECT d.id, d.status, l.dispatch_id FROM job_dispatch d FULL JOIN dead_letters l ON l.dispatch_id = d.id
         WHERE (d.status IS NOT DISTINCT FROM 'DEAD_LETTER') <> (l.dispatch_id IS NOT NULL)
            OR (l.settled_as IS NOT DISTINCT FROM 'retried') <> (l.dispatch_id IS NOT NULL AND EXISTS (
                SELECT FROM job_dispatch r WHERE r.retry_of = l.dispatch_id AND r.triggered_by = 'retry' AND r.id = l.retried_as))",
    },
    Invariant {
        name: "7: COMPLETED has exactly one successful attempt, its last",
        checked: "SELECT count(*) FROM job_dispatch WHERE status = 'COMPLETED'",
        broken: "SELECT d.id FROM job_dispatch d WHERE d.status = 'COMPLETED' AND NOT EXISTS (
             SELECT 1 FROM (SELECT * FROM job_execution_log UNION ALL SELECT * FROM maintenance.job_execution_log) l
             WHERE l.dispatch_id = d.id GROUP BY l.dispatch_id
             HAVING count(*) FILTER (WHERE l.status = 'COMPLETED') = 1
                AND max(l.attempt) FILTER (WHERE l.status = 'COMPLETED') = max(l.attempt))",
    },
    Invariant {
        name: "8: every running dispatch is named by a claim of its worker, from the commit of the claim on",
        checked: "SELECT count(*) FROM witness.claims",
        broken: "SELECT dispatch_id, attempt, worker_id, at FROM witness.claims WHERE NOT is_named
         UNION ALL SELECT d.id, d.attempt, d.worker_id, NULL FROM job_dispatch d WHERE d.status = 'IN_PROGRESS' AND NOT EXISTS (
             SELECT 1 FROM worker_claims c WHERE c.worker_id = d.worker_id AND d.id = ANY (c.dispatch_ids))",
    },
    Invariant {
        name: "9: never more attempts than the policy allows (released and cancelled ones do not count)",
        checked: "SELECT count(*) FROM job_execution_log l JOIN scheduled_jobs j ON j.id = l.job_id AND j.id IN (SELECT job_id FROM witness.unchanged_jobs)",
        broken: "SELECT d.id, count(*) FROM job_dispatch d
         JOIN scheduled_jobs j ON j.id = d.job_id AND j.id IN (SELECT job_id FROM witness.unchanged_jobs)
         JOIN task_functions f ON f.tenant_id = j.tenant_id AND f.id = j.task_function_id
         JOIN (SELECT dispatch_id, status FROM job_execution_log
               UNION ALL SELECT dispatch_id, status FROM maintenance.job_execution_log) l ON l.dispatch_id = d.id
         WHERE l.status IN ('COMPLETED', 'FAILED', 'TIMEOUT', 'LOST')
         GROUP BY d.id, coalesce(j.retry_policy, f.retry_policy)
         HAVING count(*) > coalesce((coalesce(j.retry_policy, f.retry_policy)->>'max_attempts')::integer, 1)",
    },
    Invariant {
        name: "9: no retry before the end of its backoff",
        checked: "SELECT count(*) FROM job_execution_log l JOIN scheduled_jobs j ON j.id = l.job_id AND j.id IN (SELECT job_id FROM witness.unchanged_jobs)
         WHERE l.status IN ('FAILED', 'TIMEOUT', 'LOST')",
        broken: "SELECT a.dispatch_id, a.attempt FROM (
             SELECT l.*, lead(started_at) OVER attempts AS next_started_at,
                    count(*) FILTER (WHERE status IN ('FAILED', 'TIMEOUT', 'LOST')) OVER attempts AS failures
             FROM (SELECT * FROM job_execution_log UNION ALL SELECT * FROM maintenance.job_execution_log) l
             WINDOW attempts AS (PARTITION BY dispatch_id ORDER BY attempt)) a
         JOIN scheduled_jobs j ON j.id = a.job_id AND j.id IN (SELECT job_id FROM witness.unchanged_jobs)
         JOIN task_functions f ON f.tenant_id = j.tenant_id AND f.id = j.task_function_id
         CROSS JOIN LATERAL (SELECT coalesce(j.retry_policy, f.retry_policy, '{}') AS policy) p
         CROSS JOIN LATERAL (SELECT coalesce((policy->>'backoff_seconds')::double precision, 10) AS base,
                                    coalesce((policy->>'max_backoff_seconds')::double precision, 3600) AS cap,
                                    coalesce(policy->>'backoff_type', 'exponential') AS kind) b
         WHERE a.status IN ('FAILED', 'TIMEOUT', 'LOST')
           AND a.next_started_at < a.completed_at + make_interval(secs => least(b.cap, b.base *
               CASE b.kind WHEN 'fixed' THEN 1 WHEN 'linear' THEN a.failures ELSE 2 ^ (a.failures - 1) END))",
    },
    Invariant {
        name: "max_runs: the schedule never fires more often",
        checked: "SELECT count(*) FROM scheduled_jobs",
        broken: "SELECT name, fired_count FROM scheduled_jobs j WHERE fired_count > max_runs
            OR fired_count <> (SELECT count(*) FROM job_dispatch d WHERE d.job_id = j.id AND d.trigger_id IS NULL)",
    },
    Invariant {
        name: "jitter: a dispatch becomes available within the span and not before its fire time",
        checked: "SELECT count(*) FROM job_dispatch d JOIN scheduled_jobs j ON j.id = d.job_id WHERE d.trigger_id IS NULL AND j.id IN (SELECT job_id FROM witness.unchanged_jobs)",
        broken: "SELECT d.id FROM job_dispatch d JOIN scheduled_jobs j ON j.id = d.job_id
         WHERE d.trigger_id IS NULL AND j.id IN (SELECT job_id FROM witness.unchanged_jobs)
           -- A released dispatch is available from its release.
           AND (d.attempt = 0 OR (d.attempt = 1 AND d.status NOT IN ('PENDING', 'CANCELLED')))
           AND d.available_at NOT BETWEEN d.scheduled_for AND d.scheduled_for + make_interval(secs => j.jitter_seconds)",
    },
    Invariant {
        name: "10: the cursor of a firing job is set",
        checked: "SELECT count(*) FROM scheduled_jobs WHERE job_type IN ('cron', 'interval') AND is_enabled AND deleted_at IS NULL",
        broken: "SELECT name FROM scheduled_jobs WHERE job_type IN ('cron', 'interval') AND is_enabled AND deleted_at IS NULL AND next_run_at IS NULL
           AND end_at IS NULL AND (fired_count >= max_runs) IS NOT TRUE",
    },
    Invariant {
        name: "11: every dispatch has its arguments",
        checked: "SELECT count(*) FROM job_dispatch",
        broken: "SELECT dispatch_id, job_id, job_version FROM run_arguments WHERE args IS NULL",
    },
];

/// The violated invariants, each with some violating rows.
pub(crate) async fn broken(sql: &Client, invariants: impl IntoIterator<Item = &Invariant>) -> Vec<String> {
    let mut broken = Vec::new();
    for invariant in invariants {
        let (_, rows) = rows_of(sql, invariant).await;
        if !rows.is_empty() {
            broken.push(format!("{}: {rows:?}", invariant.name));
        }
    }
    broken
}

pub(crate) async fn decide(sql: &Client, invariants: &[Invariant]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for invariant in invariants {
        let checked = sql.query_one(invariant.checked, &[]).await;
        let checked: i64 = checked
            .unwrap_or_else(|error| panic!("the items of {} cannot be counted: {error:?}", invariant.name))
            .get(0);
        let (violations, rows) = rows_of(sql, invariant).await;
        verdicts.push(Verdict {
            invariant: invariant.name.to_owned(),
            checked,
            excused: 0,
            violations,
            rows,
        });
    }
    verdicts
}

async fn rows_of(sql: &Client, invariant: &Invariant) -> (i64, Vec<String>) {
    let statement = format!("SELECT v::text, count(*) OVER () FROM ({}) v LIMIT 5", invariant.broken);
    let rows = sql.query(&statement, &[]).await;
    let rows =
        rows.unwrap_or_else(|error| panic!("invariant {} cannot be checked: {error:?}", invariant.name));
    (rows.first().map_or(0, |row| row.get(1)), rows.iter().map(|row| row.get(0)).collect())
}

pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    OF_HISTORY.iter().map(|invariant| invariant.name)
}
