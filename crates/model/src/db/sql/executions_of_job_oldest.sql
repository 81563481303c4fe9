-- As executions_of_job, the index read from its other end.
WHERE p.tenant_id = $1
  AND p.job_id = $2
  AND p.id > $3
  AND p.started_at >= coalesce($4::timestamptz, '-infinity')
  AND p.started_at < coalesce($5::timestamptz, 'infinity')
  AND coalesce(p.status = $6::text, true)
  AND coalesce(p.dispatch_id = $7::uuid, true)
ORDER BY p.id
LIMIT $8
