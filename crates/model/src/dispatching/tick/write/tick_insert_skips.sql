WITH leader AS (SELECT $1::bigint AS term),
new AS (
    SELECT * FROM unnest($2::uuid[], $3::uuid[], $4::timestamptz[], $5::timestamptz[], $6::bigint[], $7::boolean[], $8::text[], $9::timestamptz[])
        AS u (tenant_id, job_id, first_fire_at, last_fire_at, fire_count, is_count_exact, reason, follows)
),
-- A skip that follows a range with the same reason extends the range: a job that is paused for a
-- year has one row, not one for each fire. A record whose preceding fire time lies inside the range
-- then refers to the range.
extended AS (
    UPDATE skipped_fires s
    SET last_fire_at = n.last_fire_at, fire_count = s.fire_count + n.fire_count, is_count_exact = s.is_count_exact AND n.is_count_exact
    FROM new n
    WHERE s.id = (SELECT l.id FROM skipped_fires l WHERE l.job_id = n.job_id AND l.trigger_id IS NULL AND l.first_fire_at <= n.follows
                  ORDER BY l.first_fire_at DESC LIMIT 1)
      AND n.follows <= s.last_fire_at AND s.last_fire_at < n.first_fire_at
      AND s.reason = n.reason AND s.reason NOT IN ('disabled', 'ended') AND s.detail IS NULL
    RETURNING n.job_id, n.first_fire_at
),
recorded AS (
    INSERT INTO skipped_fires (term, tenant_id, job_id, first_fire_at, last_fire_at, fire_count, is_count_exact, reason, follows)
    SELECT leader.term, n.tenant_id, n.job_id, n.first_fire_at, n.last_fire_at, n.fire_count, n.is_count_exact, n.reason, n.follows
    FROM leader, new n
    WHERE NOT EXISTS (SELECT FROM extended e WHERE e.job_id = n.job_id AND e.first_fire_at = n.first_fire_at)
    -- A fire that was recorded before keeps its first record.
    ON CONFLICT (job_id, first_fire_at, trigger_id) DO NOTHING
    RETURNING job_id, first_fire_at
),
-- Reports missed fires, not those that were skipped on purpose. Almost always empty.
told AS (
    INSERT INTO events (tenant_id, project_id, job_id, event_type, payload)
    SELECT n.tenant_id, j.project_id, n.job_id, 'run_missed',
           jsonb_build_object('job_name', j.name, 'first_fire_at', n.first_fire_at, 'last_fire_at', n.last_fire_at, 'fire_count', n.fire_count,
                              'is_count_exact', n.is_count_exact, 'reason', n.reason)
    FROM (SELECT e.job_id, e.first_fire_at FROM extended e UNION ALL SELECT r.job_id, r.first_fire_at FROM recorded r) AS w
    JOIN new n ON n.job_id = w.job_id AND n.first_fire_at = w.first_fire_at AND n.reason = 'misfire'
    JOIN scheduled_jobs j ON j.tenant_id = n.tenant_id AND j.id = n.job_id
)
SELECT count(*) FROM recorded
