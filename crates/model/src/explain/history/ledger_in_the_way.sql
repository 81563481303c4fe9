-- Some runs of a job that were open when skips were recorded, the oldest first, from the latest
-- runs of the job at that time, so that no history is read. A scheduled run created together with a
-- record is not before the record's first fire; a triggered run may fall between the fire and the
-- record.
WITH input AS (SELECT $1::uuid AS tenant_id, $2::uuid AS job_id, $3::timestamptz[] AS firsts, $4::timestamptz[] AS recorded)
SELECT s.first_fire_at, o.id, o.scheduled_for, o.completed_at
FROM input i
CROSS JOIN LATERAL unnest(i.firsts, i.recorded) AS s (first_fire_at, recorded_at)
CROSS JOIN LATERAL (
    SELECT l.id, l.scheduled_for, l.completed_at
    FROM (
        SELECT d.id, d.scheduled_for, d.trigger_id, d.created_at, d.completed_at
        FROM job_dispatch d
        WHERE d.tenant_id = i.tenant_id AND d.job_id = i.job_id AND d.scheduled_for <= s.recorded_at
        ORDER BY d.scheduled_for DESC
        LIMIT 100
    ) AS l
    WHERE (l.trigger_id IS NOT NULL OR l.scheduled_for < s.first_fire_at)
      AND l.created_at <= s.recorded_at AND coalesce(l.completed_at > s.recorded_at, true)
    ORDER BY l.scheduled_for, l.id
    LIMIT 3
) AS o
ORDER BY s.first_fire_at, o.scheduled_for, o.id
