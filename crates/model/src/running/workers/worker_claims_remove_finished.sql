DELETE FROM worker_claims c
WHERE c.worker_id = $1
  AND NOT EXISTS (SELECT 1 FROM job_dispatch d
                  WHERE d.id = ANY (c.dispatch_ids) AND d.worker_id = c.worker_id AND d.status = 'IN_PROGRESS')
RETURNING c.id
