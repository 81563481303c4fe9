WITH input AS (SELECT $1::uuid AS tenant_id, $2::double precision AS lease_seconds, clock_timestamp() AS now),
jobs AS (
    SELECT count(*) FILTER (WHERE j.is_enabled AND NOT j.is_paused_now) AS active,
           count(*) FILTER (WHERE NOT j.is_enabled OR j.is_paused_now) AS inactive,
           -- A built-in job that never fired may wait for its settings.
           count(*) FILTER (WHERE NOT j.is_enabled AND j.disabled_reason IS NOT NULL
                              AND (j.last_fire_at IS NOT NULL OR j.scope = 'project')) AS quarantined,
           min(j.next_run_at) FILTER (WHERE NOT j.is_paused_now) AS next_run_at
    FROM (SELECT s.is_enabled, s.disabled_reason, s.last_fire_at, s.next_run_at, s.scope,
                 s.is_paused AND (s.paused_until > input.now) IS NOT FALSE AS is_paused_now
          FROM input
          JOIN scheduled_jobs s ON s.tenant_id = input.tenant_id
          WHERE s.deleted_at IS NULL) AS j
)
SELECT input.now, jobs.active, jobs.inactive, jobs.quarantined,
    -- By queue and by job, as the indexes are ordered: the waiting runs of other tenants are not
    -- read.
    (SELECT coalesce(sum(w.waiting), 0)::bigint
     FROM queues q
     CROSS JOIN LATERAL (SELECT count(*) AS waiting FROM job_dispatch d
                         WHERE d.queue = q.name AND d.tenant_id = q.tenant_id AND d.claimable_at < 'infinity') AS w
     WHERE q.tenant_id = input.tenant_id)
        + (SELECT coalesce(sum(w.in_line), 0)::bigint
           FROM scheduled_jobs s
           CROSS JOIN LATERAL (SELECT count(*) AS in_line FROM job_dispatch d
                               WHERE d.job_id = s.id AND d.tenant_id = s.tenant_id AND d.claimable_at = 'infinity') AS w
           WHERE s.tenant_id = input.tenant_id AND s.queued_dispatches > 0),
    (SELECT count(*) FROM worker_claims c CROSS JOIN LATERAL unnest(c.dispatch_ids) AS u (id)
     JOIN job_dispatch d ON d.id = u.id AND d.worker_id = c.worker_id AND d.status = 'IN_PROGRESS' AND d.tenant_id = input.tenant_id),
    jobs.next_run_at,
    (SELECT count(*) FROM worker_registration w WHERE w.status <> 'OFFLINE'),
    -- Only schedulers with a heartbeat within the lease, as in leader_has_standby.sql.
    (SELECT count(*) FROM scheduler_instances s WHERE abs(extract(epoch FROM input.now - s.last_heartbeat)) <= input.lease_seconds),
    (SELECT extract(epoch FROM input.now - s.last_heartbeat)::float8 FROM scheduler_instances s WHERE s.is_leader)
FROM input
CROSS JOIN jobs
