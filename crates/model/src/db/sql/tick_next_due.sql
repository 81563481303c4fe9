-- Bounded: looks at the hundred earliest cursors, so that a job held back does not hide those behind it. Should more be held
-- back, that costs up to the poll interval and nothing else.
SELECT (SELECT min(greatest(earliest.next_run_at, earliest.dispatch_lock_until))
        FROM (SELECT next_run_at, dispatch_lock_until FROM scheduled_jobs
              WHERE next_run_at IS NOT NULL ORDER BY next_run_at LIMIT 100) AS earliest), clock_timestamp()
