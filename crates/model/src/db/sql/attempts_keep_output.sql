WITH input AS (
    SELECT u.*, d.tenant_id, j.scope
    FROM unnest($1::uuid[], $2::text[], $3::integer[], $4::text[], $5::bigint[], $6::uuid[], $7::timestamptz[])
        AS u (execution_id, stream, chunk, content, dropped_bytes, dispatch_id, started_at)
    JOIN job_dispatch d ON d.id = u.dispatch_id
    JOIN scheduled_jobs j ON j.tenant_id = d.tenant_id AND j.id = d.job_id
),
kept AS (
    INSERT INTO job_execution_output (tenant_id, execution_id, started_at, stream, chunk, content, dropped_bytes)
    SELECT tenant_id, execution_id, started_at, stream, chunk, content, dropped_bytes
    FROM input WHERE scope <> 'backup_infrastructure'
    RETURNING execution_id
),
kept_apart AS (
    INSERT INTO maintenance.job_execution_output (tenant_id, execution_id, started_at, stream, chunk, content, dropped_bytes)
    SELECT tenant_id, execution_id, started_at, stream, chunk, content, dropped_bytes
    FROM input WHERE scope = 'backup_infrastructure'
    RETURNING execution_id
)
SELECT execution_id FROM kept UNION ALL SELECT execution_id FROM kept_apart
