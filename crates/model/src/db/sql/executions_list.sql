-- Attempts of a tenant, newest first.
-- No join with the parameters, and conditions that vanish where a filter is not set and are taken for an even chance where nobody knows: every plan
-- reads the index in the order of the ids and stops at the limit. What is rare, a status or a dispatch that is gone, is looked for up to there.
WHERE p.tenant_id = $1
  AND p.id < $2
  AND p.started_at >= coalesce($3::timestamptz, '-infinity')
  AND p.started_at < coalesce($4::timestamptz, 'infinity')
  AND coalesce(p.status = $5::text, true)
  AND coalesce(p.dispatch_id = $6::uuid, true)
ORDER BY p.id DESC
LIMIT $7
