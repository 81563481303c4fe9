-- Attempts of a tenant, newest first. The plan must read the index in the order of the ids and stop
-- at the limit. So there is no join with the parameters, and one bound of the ids (the planner
-- would take two for a narrow range). Each condition without a filter folds to true, and the
-- planner estimates the CASE of the unknown ones at one half. Rare matches are searched in sections
-- instead (Filter::is_rare). A missing worker, project or function compares as empty text, so it
-- matches no filter. The statuses compare by `@>`, because the planner does not fold `= ANY (NULL)`.
WHERE p.tenant_id = $1
  AND p.id < $2
  AND p.started_at >= coalesce($3::timestamptz, '-infinity')
  AND p.started_at < coalesce($4::timestamptz, 'infinity')
  AND CASE WHEN coalesce($5::text[] @> ARRAY[p.status], true)
            AND coalesce(p.dispatch_id = $6::uuid, true)
            AND coalesce(coalesce(p.worker_id::text, '') = $7::uuid::text, true)
            AND coalesce(coalesce(p.project_id::text, '') = $8::uuid::text, true)
            AND coalesce(coalesce(j.task_function_id::text, '') = $9::uuid::text, true)
            AND coalesce(p.triggered_by = $10::text, true)
      THEN true ELSE false END
ORDER BY p.id DESC
LIMIT $11
