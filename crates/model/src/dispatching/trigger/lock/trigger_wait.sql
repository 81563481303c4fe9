-- Locks the job of one trigger and waits for a transaction that holds it: a tick, a count of
-- ends, or another trigger. CASE: see trigger_plain.sql.
WITH input AS (SELECT $1::uuid AS tenant_id, $2::uuid AS id, $3::text AS name)
SELECT j.id
FROM scheduled_jobs j
WHERE j.tenant_id = (SELECT i.tenant_id FROM input i)
  AND j.id = (
      SELECT coalesce(
          (SELECT o.id FROM scheduled_jobs o
           WHERE o.tenant_id = i.tenant_id AND o.id = i.id
             AND CASE WHEN o.deleted_at IS NULL THEN true ELSE false END),
          (SELECT o.id FROM scheduled_jobs o
           WHERE o.tenant_id = i.tenant_id AND o.name = i.name AND o.deleted_at IS NULL))
      FROM input i)
  AND CASE WHEN j.deleted_at IS NULL THEN true ELSE false END
FOR NO KEY UPDATE
