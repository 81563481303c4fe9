-- The rule of room.rs in SQL, for statements that select jobs by their room: keep both equal. NULL
-- for a job without a limit. Not materialized, so that each use reads only the jobs that it names.
WITH room AS NOT MATERIALIZED (
    SELECT j.tenant_id, j.id, j.project_id, j.task_function_id, j.queued_dispatches,
           CASE WHEN j.overlap_policy <> 'allow'
                THEN j.max_instances - (j.active_dispatches - j.queued_dispatches) END AS room
    FROM scheduled_jobs j
)
