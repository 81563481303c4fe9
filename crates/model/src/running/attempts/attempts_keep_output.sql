-- Output above the tenant's quota is not kept; one line of text replaces it. A tenant without a
-- quota causes no read and no write. The usage row stays locked until the transaction that ends the
-- attempts is over. It stores the bytes granted to this statement, because the rest of the quota is
-- unknown before the row is locked.
WITH input AS (
    SELECT u.*, d.tenant_id, j.scope
    FROM unnest($1::uuid[], $2::text[], $3::integer[], $4::text[], $5::bigint[], $6::uuid[], $7::timestamptz[]) WITH ORDINALITY
        AS u (execution_id, stream, chunk, content, dropped_bytes, dispatch_id, started_at, nth)
    JOIN job_dispatch d ON d.id = u.dispatch_id
    JOIN scheduled_jobs j ON j.tenant_id = d.tenant_id AND j.id = d.job_id
),
quota AS MATERIALIZED (
    SELECT t.id AS tenant_id, (t.quotas ->> 'log_bytes')::bigint AS most
    FROM tenants t
    WHERE t.id IN (SELECT i.tenant_id FROM input i) AND t.quotas ? 'log_bytes'
),
sized AS MATERIALIZED (
    SELECT i.*, q.most, octet_length(i.content) AS bytes,
           sum(octet_length(i.content)) OVER (PARTITION BY i.tenant_id ORDER BY i.nth) AS so_far
    FROM quota q
    JOIN input i ON i.tenant_id = q.tenant_id
),
used AS (
    INSERT INTO tenant_log_usage AS u (tenant_id, day, kept_bytes, dropped_bytes, granted_bytes)
    SELECT w.tenant_id, (clock_timestamp() AT TIME ZONE 'UTC')::date, w.granted, w.total - w.granted, w.granted
    FROM (SELECT s.tenant_id, sum(s.bytes) AS total, coalesce(max(s.so_far) FILTER (WHERE s.so_far <= s.most), 0) AS granted
          FROM sized s GROUP BY s.tenant_id) AS w
    ORDER BY w.tenant_id
    ON CONFLICT (tenant_id) DO UPDATE
    SET (day, kept_bytes, dropped_bytes, granted_bytes) = (
        SELECT greatest(u.day, excluded.day), b.kept + g.granted,
               b.dropped + excluded.kept_bytes + excluded.dropped_bytes - g.granted, g.granted
        FROM (SELECT CASE WHEN u.day >= excluded.day THEN u.kept_bytes ELSE 0 END AS kept,
                     CASE WHEN u.day >= excluded.day THEN u.dropped_bytes ELSE 0 END AS dropped) AS b
        CROSS JOIN LATERAL (SELECT coalesce(max(s.so_far), 0)::bigint AS granted
                            FROM sized s WHERE s.tenant_id = u.tenant_id AND b.kept + s.so_far <= s.most) AS g)
    RETURNING u.tenant_id, u.granted_bytes
),
granted AS (
    SELECT i.tenant_id, i.scope, i.execution_id, i.started_at, i.stream, i.chunk, i.content, i.dropped_bytes
    FROM input i
    WHERE i.tenant_id NOT IN (SELECT q.tenant_id FROM quota q)
    UNION ALL
    SELECT s.tenant_id, s.scope, s.execution_id, s.started_at, s.stream, s.chunk, s.content, s.dropped_bytes
    FROM sized s JOIN used u ON u.tenant_id = s.tenant_id
    WHERE s.so_far <= u.granted_bytes
    UNION ALL
    SELECT s.tenant_id, s.scope, s.execution_id, s.started_at, s.stream, min(s.chunk),
           '[output not kept: the tenant''s quota of ' || s.most || ' bytes per day is used up]', sum(s.dropped_bytes + s.bytes)::bigint
    FROM sized s JOIN used u ON u.tenant_id = s.tenant_id
    WHERE s.so_far > u.granted_bytes
    GROUP BY s.tenant_id, s.scope, s.execution_id, s.started_at, s.stream, s.most
),
kept AS (
    INSERT INTO job_execution_output (tenant_id, execution_id, started_at, stream, chunk, content, dropped_bytes)
    SELECT tenant_id, execution_id, started_at, stream, chunk, content, dropped_bytes
    FROM granted WHERE scope <> 'backup_infrastructure'
    RETURNING execution_id
),
kept_apart AS (
    INSERT INTO maintenance.job_execution_output (tenant_id, execution_id, started_at, stream, chunk, content, dropped_bytes)
    SELECT tenant_id, execution_id, started_at, stream, chunk, content, dropped_bytes
    FROM granted WHERE scope = 'backup_infrastructure'
    RETURNING execution_id
)
SELECT execution_id FROM kept UNION ALL SELECT execution_id FROM kept_apart
