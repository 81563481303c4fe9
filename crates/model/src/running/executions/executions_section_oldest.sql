-- As executions_section, from the other end of the index.
WHERE p.tenant_id = $1
  AND p.id > $2
  AND p.id <= $3
  AND p.started_at >= coalesce($4::timestamptz, '-infinity')
  AND p.started_at < coalesce($5::timestamptz, 'infinity')
  AND CASE WHEN coalesce($6::text[] @> ARRAY[p.status], true)
            AND coalesce(p.dispatch_id = $7::uuid, true)
            AND coalesce(coalesce(p.worker_id::text, '') = $8::uuid::text, true)
            AND coalesce(coalesce(p.project_id::text, '') = $9::uuid::text, true)
            AND coalesce(coalesce(j.task_function_id::text, '') = $10::uuid::text, true)
            AND coalesce(p.triggered_by = $11::text, true)
      THEN true ELSE false END
ORDER BY p.id
LIMIT $12
