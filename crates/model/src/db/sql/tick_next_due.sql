-- The first entry of scheduled_jobs_due_idx: a job that is held back stands where it will be looked at.
SELECT (SELECT greatest(next_run_at, dispatch_lock_until) FROM scheduled_jobs
        WHERE next_run_at IS NOT NULL
        ORDER BY greatest(next_run_at, dispatch_lock_until), burst_order LIMIT 1), clock_timestamp()
