SELECT (SELECT greatest(next_run_at, dispatch_lock_until) FROM scheduled_jobs
        WHERE next_run_at IS NOT NULL ORDER BY next_run_at LIMIT 1), clock_timestamp()
