-- The versions in effect in a window, and the latest pause before it. At the end of a version,
-- `max_runs` was reached if as many fires had been dispatched by then: the total minus those
-- created since. So the runs that retention deleted do not matter.
WITH input AS (SELECT $1::uuid AS tenant_id, $2::uuid AS job_id, $3::timestamptz AS from_at, $4::timestamptz AS to_at),
known AS (
    SELECT v.version, v.change, v.settings, v.changed_at, v.changed_src, v.pause_reason, v.paused_until,
           lead(v.changed_at) OVER (ORDER BY v.version) AS next_at
    FROM scheduled_job_versions v, input i
    WHERE v.tenant_id = i.tenant_id AND v.job_id = i.job_id
)
SELECT k.version, k.change, k.settings, k.changed_at, k.changed_src, k.pause_reason, k.paused_until,
       CASE WHEN k.settings ->> 'max_runs' IS NOT NULL THEN
           CASE WHEN j.fired_count - (SELECT count(*) FROM job_dispatch d
                                      WHERE d.job_id = j.id AND d.trigger_id IS NULL AND d.created_at > k.next_at)
                     >= (k.settings ->> 'max_runs')::bigint
                THEN coalesce((SELECT max(d.scheduled_for) FROM job_dispatch d
                               WHERE d.job_id = j.id AND d.trigger_id IS NULL AND (d.created_at > k.next_at) IS NOT TRUE), k.changed_at)
           END
       END
FROM input i
JOIN scheduled_jobs j ON j.tenant_id = i.tenant_id AND j.id = i.job_id
CROSS JOIN known k
WHERE k.changed_at < i.to_at
  AND ((k.next_at < i.from_at) IS NOT TRUE
       OR k.version = (SELECT max(p.version) FROM known p WHERE p.change = 'paused' AND p.changed_at < i.from_at))
ORDER BY k.version
LIMIT $5
