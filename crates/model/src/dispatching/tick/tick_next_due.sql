-- The first entry of scheduled_jobs_due_idx, in which a job that is held back has the time of its
-- next check. Also the number of due jobs, up to a limit: now, or else at the time of that entry,
-- so that a scheduler that waits for it need not query again.
WITH input AS (SELECT $1::bigint AS most, clock_timestamp() AS now),
next AS (
    SELECT greatest(next_run_at, dispatch_lock_until) AS due FROM scheduled_jobs
    WHERE next_run_at IS NOT NULL
    ORDER BY greatest(next_run_at, dispatch_lock_until), burst_order LIMIT 1
)
SELECT next.due, input.now,
       (SELECT count(*) FROM (SELECT 1 FROM scheduled_jobs
                              WHERE next_run_at IS NOT NULL
                                AND greatest(next_run_at, dispatch_lock_until) <= greatest(next.due, input.now)
                              -- In the order of the index, so that only the index is read.
                              ORDER BY greatest(next_run_at, dispatch_lock_until), burst_order
                              LIMIT input.most) AS due)
FROM input LEFT JOIN next ON true
