-- A door: who operates the installation is told which attempts a reset of what is stuck would end, of every tenant, and sees no row for that: a
-- job of a tenant that is not that of the transaction has no name here. It decides nothing, and has to say the same as recovery, overdue attempts and
-- strays (`recovery_*.sql`) together. Reads the whole table of dispatches, as strays do.
CREATE FUNCTION find_stuck(
    worker_lease_seconds double precision, unknown_limit_seconds double precision, margin_seconds double precision, max_rows bigint,
    OUT dispatch_id uuid, OUT tenant_id uuid, OUT project_id uuid, OUT job_id uuid, OUT job_name text, OUT claim_token bigint, OUT attempt integer,
    OUT retry_count integer, OUT lost_count integer, OUT claimed_at timestamptz, OUT asked_at timestamptz, OUT worker_id uuid, OUT retry_policy jsonb,
    OUT tenant text, OUT hostname text, OUT is_cancel_requested boolean, OUT has_claim boolean, OUT is_worker_gone boolean, OUT limit_seconds double precision
) RETURNS SETOF record LANGUAGE sql STABLE STRICT SECURITY DEFINER SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT d.id, d.tenant_id, j.project_id, d.job_id,
           CASE WHEN d.tenant_id = NULLIF(current_setting('sched.tenant', true), '')::uuid THEN j.name ELSE '' END,
           d.claim_token, d.attempt, d.retry_count, d.lost_count, d.claimed_at, clock_timestamp(), d.worker_id,
           coalesce(j.retry_policy, f.retry_policy), t.slug, w.hostname, d.cancel_requested_at IS NOT NULL, c.id IS NOT NULL, worker.is_gone,
           allowed.seconds
    FROM job_dispatch d
    JOIN tenants t ON t.id = d.tenant_id
    JOIN scheduled_jobs j ON j.tenant_id = d.tenant_id AND j.id = d.job_id
    JOIN task_functions f ON f.tenant_id = j.tenant_id AND f.id = j.task_function_id
    LEFT JOIN worker_registration w ON w.worker_id = d.worker_id
    -- The latest claim of the worker that names it is the one it runs under.
    LEFT JOIN LATERAL (
        SELECT claims.id, named.limit_seconds
        FROM worker_claims claims
        CROSS JOIN LATERAL unnest(claims.dispatch_ids, claims.limit_seconds) AS named (id, limit_seconds)
        WHERE claims.worker_id = d.worker_id AND named.id = d.id
        ORDER BY claims.id DESC
        LIMIT 1
    ) AS c ON true
    CROSS JOIN LATERAL (
        SELECT w.worker_id IS NULL OR w.status = 'OFFLINE'
               OR abs(extract(epoch FROM clock_timestamp() - w.last_heartbeat))
                  > greatest(find_stuck.worker_lease_seconds, w.lease_ms / 1000.0) AS is_gone
    ) AS worker
    CROSS JOIN LATERAL (
        SELECT coalesce(c.limit_seconds::float8,
                        greatest(coalesce(j.timeout_seconds, f.default_timeout_seconds)::float8, find_stuck.unknown_limit_seconds)) AS seconds
    ) AS allowed
    WHERE d.status = 'IN_PROGRESS'
      AND coalesce(current_setting('sched.system', true), '') = 'on'
      -- The margin of overdue attempts: a tenth, or the least one.
      AND (worker.is_gone
           OR d.claimed_at < clock_timestamp() - (allowed.seconds + greatest(find_stuck.margin_seconds, allowed.seconds / 10)) * interval '1 second')
    ORDER BY d.id
    LIMIT find_stuck.max_rows;
END;
COMMENT ON FUNCTION find_stuck(double precision, double precision, double precision, bigint)
    IS 'Attempts that a reset of what is stuck would end, for who operates the installation.';
REVOKE EXECUTE ON FUNCTION find_stuck(double precision, double precision, double precision, bigint) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION find_stuck(double precision, double precision, double precision, bigint) TO sched_api, sched_daemon;
