-- The section of the stream, with the matches of rules. The rules are read with the snapshot of the
-- events: a rule that is not visible yet is younger than all of these events. There is at least one
-- row, which contains the end of the section. Events of `sched.notify` never match, so that no
-- delivery causes another.
, sender AS (SELECT $5::text AS job_name),
classified AS (
    SELECT e.*,
           CASE WHEN e.event_type IN ('schedule_execution_completed', 'schedule_execution_lost') THEN
                    CASE e.payload ->> 'dispatch_status'
                        WHEN 'COMPLETED' THEN 'recovery' WHEN 'DEAD_LETTER' THEN 'dead_letter'
                        WHEN 'FAILED' THEN 'failure' WHEN 'TIMEOUT' THEN 'failure' END
                WHEN e.event_type IN ('dispatch_expired', 'run_missed') THEN 'missed'
                -- Disabled by the scheduler because it cannot continue; a user who disables a job
                -- is named in `by`.
                WHEN e.event_type = 'job_disabled' AND NOT e.payload ? 'by' THEN 'failure' END AS kind
    FROM page e
),
wanted AS (
    SELECT p.*, r.id AS rule_id, r.name AS rule_name, r.min_interval_seconds, c.id AS channel_id, c.name AS channel_name,
           -- A dead letter counts as a failure for rules that include only failures.
           CASE WHEN p.kind = ANY (r.kinds) THEN p.kind
                WHEN p.kind = 'dead_letter' AND 'failure' = ANY (r.kinds) THEN 'failure' END AS told_as
    FROM classified p
    JOIN notification_rules r ON r.tenant_id = p.tenant_id AND r.is_active AND r.active_since <= p.created_at
        AND (r.project_id IS NULL OR r.project_id = p.project_id) AND (r.job_id IS NULL OR r.job_id = p.job_id)
    JOIN notification_channels c ON c.tenant_id = r.tenant_id AND c.id = r.channel_id AND c.is_active
    WHERE p.kind IS NOT NULL AND p.job_id IS NOT NULL
),
matched AS (
    SELECT w.*, j.name AS job_name, t.slug AS tenant_slug, j.project_id AS job_project_id, h.told_at, h.held_back, d.scheduled_for
    FROM wanted w
    JOIN scheduled_jobs j ON j.tenant_id = w.tenant_id AND j.id = w.job_id
    JOIN task_functions f ON f.tenant_id = j.tenant_id AND f.id = j.task_function_id
    JOIN tenants t ON t.id = w.tenant_id
    LEFT JOIN notification_holds h ON h.tenant_id = w.tenant_id AND h.rule_id = w.rule_id AND h.job_id = w.job_id AND h.kind = w.told_as
    LEFT JOIN job_dispatch d ON d.id = w.dispatch_id
    WHERE w.told_as IS NOT NULL
      AND NOT (f.is_system AND f.name = (SELECT job_name FROM sender))
      -- Recovery: a success after a finally failed run, the last run before it that ended without
      -- cancellation. Ends of attempts are read from the history of the job, the latest hundred
      -- before the success. Jobs of the scope backup_infrastructure have a separate history. A run is
      -- final unless it continued after the attempt.
      AND (w.told_as <> 'recovery' OR (
          SELECT b.status <> 'COMPLETED'
          FROM (
              (SELECT e.created_at AS at, coalesce(e.payload ->> 'dispatch_status', 'FAILED') AS status
               FROM events e
               WHERE e.job_id = w.job_id AND (e.transaction_id, e.id) < (w.transaction_id, w.id)
                 AND (e.event_type = 'dispatch_expired' OR (e.event_type = 'job_disabled' AND NOT e.payload ? 'by')
                      OR (e.event_type = 'schedule_execution_lost'
                          AND e.payload ->> 'dispatch_status' IN ('COMPLETED', 'FAILED', 'TIMEOUT', 'DEAD_LETTER')))
               ORDER BY e.transaction_id DESC, e.id DESC
               LIMIT 1)
              UNION ALL
              (SELECT h.completed_at, coalesce(d.status, h.status)
               FROM ((SELECT l.* FROM job_execution_log l
                      WHERE l.tenant_id = w.tenant_id AND l.job_id = w.job_id AND l.started_at <= w.created_at
                      ORDER BY l.id DESC LIMIT 100)
                     UNION ALL
                     (SELECT l.* FROM maintenance.job_execution_log l
                      WHERE l.tenant_id = w.tenant_id AND l.job_id = w.job_id AND l.started_at <= w.created_at
                      ORDER BY l.id DESC LIMIT 100)) AS h
               LEFT JOIN job_dispatch d ON d.id = h.dispatch_id
               WHERE h.completed_at <= w.created_at AND h.dispatch_id IS DISTINCT FROM w.dispatch_id
                 AND h.status NOT IN ('RELEASED', 'CANCELLED', 'EXPIRED')
                 AND (d.id IS NULL OR (d.attempt = h.attempt AND d.status IN ('COMPLETED', 'FAILED', 'TIMEOUT', 'DEAD_LETTER')))
               ORDER BY h.completed_at DESC
               LIMIT 1)
          ) AS b
          ORDER BY b.at DESC
          LIMIT 1))
),
told AS (
    SELECT m.*, jsonb_strip_nulls(jsonb_build_object(
               'type', m.told_as, 'at', m.created_at, 'tenant', m.tenant_slug, 'project', p.name, 'project_id', p.id,
               'job', m.job_name, 'job_id', m.job_id, 'run_id', m.dispatch_id, 'attempt_id', m.payload -> 'execution_id', 'fire_time', coalesce(m.scheduled_for, (m.payload ->> 'first_fire_at')::timestamptz),
               'attempt', m.payload -> 'attempt',
               'status', coalesce(m.payload ->> 'dispatch_status', CASE WHEN m.kind = 'missed' AND m.dispatch_id IS NOT NULL THEN 'FAILED' END),
               'error_class', m.payload ->> 'error_class', 'error', left(coalesce(m.payload ->> 'error', m.payload ->> 'reason'), 1000),
               'missed_fires', m.payload -> 'fire_count', 'last_fire_time', m.payload -> 'last_fire_at')) AS body
    FROM matched m
    LEFT JOIN projects p ON p.tenant_id = m.tenant_id AND p.id = coalesce(m.project_id, m.job_project_id)
),
last AS (SELECT p.transaction_id, p.id FROM page p ORDER BY p.transaction_id DESC, p.id DESC LIMIT 1)
SELECT s.ends_at::text::bigint, (SELECT pg_snapshot_xmax(snapshot) FROM seen)::text::bigint, (SELECT system_identifier FROM pg_control_system()),
       s.has_foreign, (SELECT count(*) FROM page), l.transaction_id::text::bigint, l.id,
       m.transaction_id::text::bigint, m.id, m.created_at, m.tenant_id, m.rule_id, m.rule_name, m.channel_id, m.channel_name, m.told_as,
       m.min_interval_seconds, m.job_id, m.dispatch_id, m.body, m.told_at, m.held_back
FROM settled s
LEFT JOIN last l ON true
LEFT JOIN told m ON true
ORDER BY m.transaction_id, m.id, m.rule_id
