DELETE FROM worker_claims c
USING worker_registration w
WHERE w.worker_id = c.worker_id AND w.status = 'OFFLINE'
  AND NOT EXISTS (SELECT 1 FROM job_dispatch d
                  WHERE d.id = ANY (c.dispatch_ids) AND d.worker_id = c.worker_id AND d.status = 'IN_PROGRESS')
RETURNING c.id
