-- Settles the dead letters of runs that were retried.
WITH input AS (SELECT $1::uuid AS tenant_id, $2::text AS by, $3::timestamptz AS at)
UPDATE dead_letters l
SET settled_as = 'retried', settled_at = i.at, settled_by = i.by, settled_reason = NULL,
    retried_as = u.retry_id
FROM input i CROSS JOIN unnest($4::uuid[], $5::uuid[]) AS u (id, retry_id)
WHERE l.tenant_id = i.tenant_id AND l.dispatch_id = u.id
