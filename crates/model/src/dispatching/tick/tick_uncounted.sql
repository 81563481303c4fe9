-- Ended runs of these jobs that the counters of the jobs still contain. The caller has locked the
-- jobs in an earlier statement: a concurrent count of these ends has either updated the locked rows,
-- and its rows of uncounted_ends are gone, or it waits for the lock, and its rows are still visible.
--
-- With LIMIT 1 the planner reads each batch by its key, and with CASE it builds a hash table of the
-- jobs. It expects few rows of both, and a join of them takes quadratic time.
SELECT e.tenant_id, e.job_id, count(*)::integer
FROM (
    SELECT o.tenant_id, u.job_id, coalesce(u.dispatch_status, u.outcome, 'COMPLETED') AS status
    FROM uncounted_ends o
    CROSS JOIN LATERAL (SELECT l.*
                        FROM run_end_batches l
                        WHERE l.transaction_id = o.transaction_id AND l.id = o.batch_id AND l.created_at = o.created_at
                        LIMIT 1) AS b
    CROSS JOIN LATERAL unnest(b.job_ids, b.outcomes, b.dispatch_statuses) AS u (job_id, outcome, dispatch_status)
) AS e
WHERE e.status <> 'PENDING'
  AND CASE WHEN (e.tenant_id, e.job_id) IN (SELECT j.tenant_id, j.id FROM unnest($1::uuid[], $2::uuid[]) AS j (tenant_id, id))
           THEN true ELSE false END
GROUP BY e.tenant_id, e.job_id
