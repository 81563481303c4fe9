-- The occurrence ledger: what became of every fire time, in one view, and the proof that nothing is missing from it, in another.
-- Besides, what an explanation of past fire times needs of pauses: when each was made, why, and until when.
--
-- Our own code never reads these views. `security_invoker`: a reader sees what its own rights show.

ALTER TABLE scheduled_job_versions ADD COLUMN pause_reason text, ADD COLUMN paused_until timestamptz;
COMMENT ON COLUMN scheduled_job_versions.pause_reason IS 'Why the job was paused, where the change is a pause.';
COMMENT ON COLUMN scheduled_job_versions.paused_until IS 'When that pause is to end by itself; NULL means when somebody resumes the job.';
COMMENT ON COLUMN scheduled_jobs.is_paused    IS 'True: the schedule does not fire for a while; not any more once paused_until has passed.';
COMMENT ON COLUMN scheduled_jobs.paused_until IS 'When the pause ends by itself; NULL means when somebody resumes it.';
COMMENT ON COLUMN scheduled_jobs.next_run_at  IS 'The next fire time: the cursor of the schedule. It moves on while the job is paused, so that what is skipped is recorded. NULL when nothing will fire (manual, disabled, deleted, over).';

CREATE OR REPLACE VIEW job_health WITH (security_invoker = true) AS
SELECT j.tenant_id, j.id AS job_id, j.name, j.job_type,
       CASE WHEN j.deleted_at IS NOT NULL THEN 'deleted' WHEN NOT j.is_enabled THEN 'disabled'
            WHEN j.is_paused AND (j.paused_until > clock_timestamp()) IS NOT FALSE THEN 'paused' ELSE 'active' END AS state,
       j.disabled_reason, j.next_run_at, j.last_run_at, j.last_status, j.total_run_count, j.active_dispatches
FROM scheduled_jobs j;

CREATE VIEW occurrence_ledger WITH (security_invoker = true) AS
SELECT d.tenant_id, d.job_id, j.name AS job_name, d.scheduled_for AS first_fire_at, d.scheduled_for AS last_fire_at,
       1::bigint AS fire_count, true AS is_count_exact, 'dispatched' AS fate, d.status AS outcome, d.id AS dispatch_id,
       d.created_at AS decided_at, d.term, d.follows
FROM job_dispatch d
JOIN scheduled_jobs j ON j.tenant_id = d.tenant_id AND j.id = d.job_id
WHERE d.trigger_id IS NULL
UNION ALL
SELECT s.tenant_id, s.job_id, j.name, s.first_fire_at, s.last_fire_at, s.fire_count, s.is_count_exact, 'skipped', s.reason, NULL,
       s.recorded_at, s.term, s.follows
FROM skipped_fires s
JOIN scheduled_jobs j ON j.tenant_id = s.tenant_id AND j.id = s.job_id
WHERE s.trigger_id IS NULL;
COMMENT ON VIEW occurrence_ledger IS 'What became of every fire time: dispatched (outcome is the status of the dispatch) or skipped (outcome is the reason; a row may stand for a range of fire times). Triggers are not in it. See docs/ledger.md.';

-- Every part is a few hash joins, or one sort, over the whole of what is kept: to be asked for all jobs at once.
CREATE VIEW ledger_gaps WITH (security_invoker = true) AS
-- Which record each record follows, and which one each job names as its last.
WITH links AS (
    SELECT d.tenant_id, d.job_id, d.follows AS target, d.scheduled_for AS named_by
    FROM job_dispatch d WHERE d.trigger_id IS NULL AND d.follows IS NOT NULL
    UNION ALL
    SELECT s.tenant_id, s.job_id, s.follows, s.first_fire_at FROM skipped_fires s WHERE s.trigger_id IS NULL AND s.follows IS NOT NULL
    UNION ALL
    SELECT j.tenant_id, j.id, j.last_fire_at, NULL FROM scheduled_jobs j WHERE j.last_fire_at IS NOT NULL
),
-- Few remain: links into a range that has grown since, and those that dangle.
unmatched AS MATERIALIZED (
    SELECT l.tenant_id, l.job_id, l.target, l.named_by
    FROM links l
    WHERE NOT EXISTS (SELECT FROM job_dispatch d
                      WHERE d.job_id = l.job_id AND d.scheduled_for = l.target AND d.trigger_id IS NULL)
      AND NOT EXISTS (SELECT FROM skipped_fires s WHERE s.job_id = l.job_id AND s.first_fire_at = l.target AND s.trigger_id IS NULL)
),
-- Only with a range can a fate overlap another: of dispatches, a key allows one for a fire time.
records AS (
    SELECT d.tenant_id, d.job_id, d.scheduled_for AS first_fire_at, d.scheduled_for AS last_fire_at, 'a dispatch' AS fate
    FROM job_dispatch d
    WHERE d.trigger_id IS NULL AND EXISTS (SELECT FROM skipped_fires s WHERE s.job_id = d.job_id AND s.trigger_id IS NULL)
    UNION ALL
    SELECT s.tenant_id, s.job_id, s.first_fire_at, s.last_fire_at, 'a skip for ' || s.reason FROM skipped_fires s WHERE s.trigger_id IS NULL
),
reached AS (
    SELECT r.*, max(r.last_fire_at) OVER (PARTITION BY r.tenant_id, r.job_id ORDER BY r.first_fire_at, r.last_fire_at
                                          ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS taken_until
    FROM records r
),
gaps AS (
    SELECT u.tenant_id, u.job_id, CASE WHEN u.named_by IS NULL THEN 'lost_last_record' ELSE 'lost_record' END AS kind,
           u.target AS at,
           CASE WHEN u.named_by IS NULL THEN 'the job names a record of this fire time as its last, and there is none'
                ELSE 'the record of ' || u.named_by || ' follows one of this fire time, and there is none' END AS detail
    FROM unmatched u
    JOIN scheduled_jobs j ON j.tenant_id = u.tenant_id AND j.id = u.job_id
    LEFT JOIN LATERAL (SELECT s.last_fire_at FROM skipped_fires s
                       WHERE s.job_id = u.job_id AND s.trigger_id IS NULL AND s.first_fire_at <= u.target
                       ORDER BY s.first_fire_at DESC LIMIT 1) AS range ON true
    WHERE (u.target <= j.ledger_starts_at) IS NOT TRUE AND (range.last_fire_at >= u.target) IS NOT TRUE
    UNION ALL
    SELECT r.tenant_id, r.job_id, 'two_fates', r.first_fire_at,
           r.fate || ' of a fire time that has another fate: a record before it reaches up to ' || r.taken_until
    FROM reached r WHERE r.taken_until >= r.first_fire_at
    UNION ALL
    SELECT j.tenant_id, j.id, 'overdue', j.next_run_at,
           'due, and for more than a minute nothing has been decided about it'
    FROM scheduled_jobs j
    WHERE j.is_enabled AND j.deleted_at IS NULL AND j.next_run_at IS NOT NULL
      AND greatest(j.next_run_at, j.dispatch_lock_until) < clock_timestamp() - interval '1 minute'
    UNION ALL
    SELECT j.tenant_id, j.id, 'no_cursor', j.settled_until, 'enabled and not over, and without a next fire time'
    FROM scheduled_jobs j
    WHERE j.job_type IN ('cron', 'interval') AND j.is_enabled AND j.deleted_at IS NULL AND j.next_run_at IS NULL
      AND (j.end_at > clock_timestamp() + interval '1 year') IS NOT FALSE AND (j.fired_count >= j.max_runs) IS NOT TRUE
    UNION ALL
    SELECT j.tenant_id, j.id, 'books_ahead', j.settled_until,
           CASE WHEN j.settled_until > clock_timestamp() THEN 'the books are settled up to an instant that has not come'
                ELSE 'the last record is of ' || j.last_fire_at || ', after all that is settled' END
    FROM scheduled_jobs j
    WHERE j.settled_until > clock_timestamp() OR j.last_fire_at > j.settled_until
)
SELECT g.tenant_id, g.job_id, j.name AS job_name, g.kind, g.at, g.detail
FROM gaps g
JOIN scheduled_jobs j ON j.tenant_id = g.tenant_id AND j.id = g.job_id;
COMMENT ON VIEW ledger_gaps IS 'Empty when no record of the occurrence ledger is missing or contradicts another: every record is there that another one or its job names, no fire time has two fates, nothing is overdue, and cursors and books agree. See docs/ledger.md.';
