, counted AS (
    UPDATE scheduled_jobs j
    SET total_run_count = j.total_run_count + c.created,
        active_dispatches = j.active_dispatches + c.created,
        queued_dispatches = j.queued_dispatches + c.queued,
        last_dispatched_at = clock_timestamp()
    FROM (SELECT tenant_id, job_id, count(*)::integer AS created,
                 count(*) FILTER (WHERE claimable_at = 'infinity')::integer AS queued
          FROM created
          GROUP BY tenant_id, job_id) AS c
    WHERE j.tenant_id = c.tenant_id AND j.id = c.job_id
)
SELECT id FROM created
