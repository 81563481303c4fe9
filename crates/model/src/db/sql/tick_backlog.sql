SELECT count(*) FROM (
    SELECT 1 FROM scheduled_jobs
    WHERE next_run_at IS NOT NULL AND greatest(next_run_at, dispatch_lock_until) <= clock_timestamp()
    LIMIT $1
) AS due
