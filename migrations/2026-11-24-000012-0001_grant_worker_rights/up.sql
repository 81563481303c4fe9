-- Rights of workers. They may read everything, because the built-in backup dumps everything. They
-- write what claims, attempts, heartbeats, live output, recovery and the built-in jobs write, and
-- nothing else: no definition, no user, key or session. They delete no event and no attempt, except
-- through delete_stray_history(). docs/internals/isolation.md describes the roles.
--
-- Columns are granted singly where the rest of a row belongs to users or to the leader. A lock on a
-- row takes the right to update some column of it.

GRANT USAGE ON SCHEMA public, maintenance, history_archive, maintenance_archive TO sched_worker;
GRANT SELECT ON ALL TABLES IN SCHEMA public, maintenance TO sched_worker;
GRANT SELECT ON ALL SEQUENCES IN SCHEMA public, maintenance TO sched_worker;
GRANT USAGE ON SEQUENCE claim_token_seq, event_id_seq TO sched_worker;
-- Also on months that the leader creates, and on tables of later migrations.
DO $$
DECLARE
    creator text;
BEGIN
    FOREACH creator IN ARRAY ARRAY[
        current_user,
        (SELECT pg_get_userbyid(c.relowner) FROM pg_class c WHERE c.oid = 'tenants'::regclass)] LOOP
        EXECUTE format('ALTER DEFAULT PRIVILEGES FOR ROLE %I IN SCHEMA public, maintenance
                        GRANT SELECT ON TABLES TO sched_worker', creator);
        EXECUTE format('ALTER DEFAULT PRIVILEGES FOR ROLE %I IN SCHEMA public, maintenance
                        GRANT SELECT ON SEQUENCES TO sched_worker', creator);
    END LOOP;
END $$;

-- Claims, and registrations with their heartbeats.
GRANT UPDATE (status, attempt, available_at, claimable_at, claimed_at, claim_token, completed_at,
              error_message, lost_count, retry_count, unstarted_count, worker_id)
    ON job_dispatch TO sched_worker;
GRANT INSERT, UPDATE, DELETE ON worker_claims, worker_registration, queue_usage, tenant_log_usage
    TO sched_worker;
GRANT INSERT, UPDATE (gone_at), DELETE ON known_workers TO sched_worker;

-- Attempts with their history, events and output. A partition is reached through its table only.
GRANT INSERT ON dead_letters, events, job_ends, job_execution_log, job_execution_output,
    maintenance.job_execution_log, maintenance.job_execution_output, run_end_batches,
    run_start_batches TO sched_worker;
GRANT INSERT, UPDATE, DELETE ON live_output, live_progress TO sched_worker;

-- Counters of jobs, and the totals by minute.
GRANT INSERT, UPDATE ON attempt_minutes TO sched_worker;
GRANT INSERT, UPDATE, DELETE ON uncounted_ends TO sched_worker;
GRANT DELETE ON uncounted_openings TO sched_worker;
GRANT UPDATE (active_dispatches, last_dispatched_at, last_run_at, last_status, queued_dispatches,
              total_run_count) ON scheduled_jobs TO sched_worker;

-- The built-in jobs. The audit log rejects the deletion of entries within their retention itself.
GRANT UPDATE (error_class, error_message, reached) ON notification_deliveries TO sched_worker;
GRANT UPDATE (retained_at) ON housekeeping TO sched_worker;
GRANT UPDATE (idempotency_key) ON job_dispatch TO sched_worker;
GRANT UPDATE (ledger_starts_at) ON scheduled_jobs TO sched_worker;
GRANT UPDATE (created_at) ON kept_answers TO sched_worker;
GRANT DELETE ON audit_log, dead_letters, job_dispatch, kept_answers, leader_terms,
    scheduler_instances, skipped_fires TO sched_worker;

-- The default partitions hold rows of months without a partition. The retention of the leader
-- bounds the caller, so that a worker deletes no event or attempt that the leader keeps.
CREATE FUNCTION delete_stray_history(
    before_at timestamptz, max_rows bigint, OUT attempts bigint, OUT output bigint, OUT events bigint
) RETURNS record LANGUAGE sql VOLATILE STRICT SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    WITH bound AS MATERIALIZED (
        SELECT least(before_at, coalesce((SELECT now() - make_interval(days => h.finished_days)
                                          FROM housekeeping h), '-infinity')) AS at
    ),
    attempts AS (
        DELETE FROM job_execution_log_default l WHERE l.ctid = ANY (ARRAY(
            SELECT o.ctid FROM job_execution_log_default o
            WHERE o.started_at < (SELECT b.at FROM bound b) LIMIT max_rows))
        RETURNING 1
    ),
    output AS (
        DELETE FROM job_execution_output_default l WHERE l.ctid = ANY (ARRAY(
            SELECT o.ctid FROM job_execution_output_default o
            WHERE o.started_at < (SELECT b.at FROM bound b) LIMIT max_rows))
        RETURNING 1
    ),
    attempts_apart AS (
        DELETE FROM maintenance.job_execution_log_default l WHERE l.ctid = ANY (ARRAY(
            SELECT o.ctid FROM maintenance.job_execution_log_default o
            WHERE o.started_at < (SELECT b.at FROM bound b) LIMIT max_rows))
        RETURNING 1
    ),
    output_apart AS (
        DELETE FROM maintenance.job_execution_output_default l WHERE l.ctid = ANY (ARRAY(
            SELECT o.ctid FROM maintenance.job_execution_output_default o
            WHERE o.started_at < (SELECT b.at FROM bound b) LIMIT max_rows))
        RETURNING 1
    ),
    events AS (
        DELETE FROM events_default l WHERE l.ctid = ANY (ARRAY(
            SELECT o.ctid FROM events_default o
            WHERE o.created_at < (SELECT b.at FROM bound b) LIMIT max_rows))
        RETURNING 1
    ),
    starts AS (
        DELETE FROM run_start_batches_default l WHERE l.ctid = ANY (ARRAY(
            SELECT o.ctid FROM run_start_batches_default o
            WHERE o.created_at < (SELECT b.at FROM bound b) LIMIT max_rows))
        RETURNING 1
    ),
    ends AS (
        DELETE FROM run_end_batches_default l WHERE l.ctid = ANY (ARRAY(
            SELECT o.ctid FROM run_end_batches_default o
            WHERE o.created_at < (SELECT b.at FROM bound b) LIMIT max_rows))
        RETURNING 1
    )
    SELECT (SELECT count(*) FROM attempts) + (SELECT count(*) FROM attempts_apart),
           (SELECT count(*) FROM output) + (SELECT count(*) FROM output_apart),
           (SELECT count(*) FROM events) + (SELECT count(*) FROM starts)
               + (SELECT count(*) FROM ends);
END;
COMMENT ON FUNCTION delete_stray_history(timestamptz, bigint) IS
    'Deletes expired attempts, output and events from the default partitions, up to a number of '
    'rows each, and returns how many. Rows within the retention of the leader stay.';
REVOKE EXECUTE ON FUNCTION delete_stray_history(timestamptz, bigint) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION delete_stray_history(timestamptz, bigint) TO sched_daemon, sched_worker;
