DELETE FROM worker_registration w
WHERE w.worker_id = $1 AND NOT EXISTS (SELECT 1 FROM worker_claims c WHERE c.worker_id = w.worker_id)
RETURNING w.worker_id
