-- As executions_unsuccessful, from the other end of the index.
    WHERE p.tenant_id = $2
      AND p.status = s.status
      AND p.status <> 'COMPLETED'
      AND p.id > $3
      AND p.started_at >= coalesce($4::timestamptz, '-infinity')
      AND p.started_at < coalesce($5::timestamptz, 'infinity')
      AND CASE WHEN coalesce(p.dispatch_id = $6::uuid, true)
                AND coalesce(coalesce(p.worker_id::text, '') = $7::uuid::text, true)
                AND coalesce(coalesce(p.project_id::text, '') = $8::uuid::text, true)
                AND coalesce(coalesce(j.task_function_id::text, '') = $9::uuid::text, true)
                AND coalesce(p.triggered_by = $10::text, true)
          THEN true ELSE false END
    ORDER BY p.id
    LIMIT $11
) AS f
ORDER BY f.id
