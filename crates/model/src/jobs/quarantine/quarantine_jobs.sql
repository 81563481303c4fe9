-- The trigger of scheduled_job_versions compares the arguments, so the job gets its version first.
UPDATE scheduled_jobs j
SET is_enabled = false, disabled_reason = u.reason, next_run_at = NULL, is_cursor_stale = false,
    version = j.version + 1, updated_at = coalesce(u.at, clock_timestamp()), updated_src = 'scheduler'
FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::timestamptz[]) AS u (tenant_id, id, reason, at)
WHERE j.tenant_id = u.tenant_id AND j.id = u.id AND j.deleted_at IS NULL
RETURNING j.tenant_id, j.id, j.project_id
