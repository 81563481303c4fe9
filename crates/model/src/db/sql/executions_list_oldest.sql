-- As executions_list, the index read from its other end.
WHERE p.tenant_id = $1
  AND p.id > $2
  AND p.started_at >= coalesce($3::timestamptz, '-infinity')
  AND p.started_at < coalesce($4::timestamptz, 'infinity')
  AND coalesce(p.status = $5::text, true)
  AND coalesce(p.dispatch_id = $6::uuid, true)
ORDER BY p.id
LIMIT $7
