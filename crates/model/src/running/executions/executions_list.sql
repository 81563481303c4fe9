-- Attempts of a tenant, newest first.
-- No join with the parameters, one bound of the ids (the planner would take two for a narrow range), and conditions that vanish where no filter is
-- set and are together taken for an even chance where nobody knows: every plan reads the index in the order of the ids and stops at the limit. What is
-- rare, a status or a dispatch that is gone, is looked for up to there. As text, what has no worker, project or function is none of anybody's.
WHERE p.tenant_id = $1
  AND p.id < $2
  AND p.started_at >= coalesce($3::timestamptz, '-infinity')
  AND p.started_at < coalesce($4::timestamptz, 'infinity')
  AND CASE WHEN coalesce(p.status = $5::text, true)
            AND coalesce(p.dispatch_id = $6::uuid, true)
            AND coalesce(coalesce(p.worker_id::text, '') = $7::uuid::text, true)
            AND coalesce(coalesce(p.project_id::text, '') = $8::uuid::text, true)
            AND coalesce(coalesce(j.task_function_id::text, '') = $9::uuid::text, true)
            AND coalesce(p.triggered_by = $10::text, true)
      THEN true ELSE false END
ORDER BY p.id DESC
LIMIT $11
