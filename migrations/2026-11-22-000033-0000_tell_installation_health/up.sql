-- How the work of all tenants stands, for the health of the installation: an instant and a number, and nothing of any tenant.
CREATE FUNCTION installation_health(OUT oldest_due timestamptz, OUT quarantined bigint)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT
        -- The first entry of scheduled_jobs_due_idx; a job that is held back stands where it will be looked at.
        (SELECT d.due FROM (SELECT greatest(j.next_run_at, j.dispatch_lock_until) AS due FROM scheduled_jobs j
                            WHERE j.next_run_at IS NOT NULL
                            ORDER BY greatest(j.next_run_at, j.dispatch_lock_until), j.burst_order LIMIT 1) AS d
         WHERE d.due <= clock_timestamp()),
        (SELECT count(*) FROM scheduled_jobs j
         WHERE NOT j.is_enabled AND j.deleted_at IS NULL AND j.disabled_reason IS NOT NULL AND j.last_fire_at IS NOT NULL);
END;
COMMENT ON FUNCTION installation_health() IS 'Since when the job is due that is due longest, if any is, and how many jobs the scheduler has disabled by itself; of all tenants.';
REVOKE EXECUTE ON FUNCTION installation_health() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION installation_health() TO sched_api, sched_daemon;
