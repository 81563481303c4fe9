-- A claim that still names a running run stays: recovery finds that run through the claim if the
-- worker is lost.
DELETE FROM worker_claims c
WHERE c.id = ANY ($1::bigint[])
  AND NOT EXISTS (SELECT 1 FROM job_dispatch d
                  WHERE d.id = ANY (c.dispatch_ids) AND d.worker_id = c.worker_id AND d.status = 'IN_PROGRESS')
RETURNING c.id
