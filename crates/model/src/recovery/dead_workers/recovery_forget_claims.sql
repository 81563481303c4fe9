DELETE FROM worker_claims c
USING worker_registration w
WHERE w.worker_id = c.worker_id AND w.status = 'OFFLINE'
  AND NOT EXISTS (SELECT 1
                  FROM unnest(c.dispatch_ids) AS u (id)
                  -- OFFSET 0: see recovery_lost_attempts.sql.
                  CROSS JOIN LATERAL (SELECT 1 FROM job_dispatch d
                                      WHERE d.id = u.id AND d.worker_id = c.worker_id AND d.status = 'IN_PROGRESS' OFFSET 0) AS d)
RETURNING c.id
