-- Jobs whose next fire was computed from other zone tables; tick_due_jobs.sql follows. A job that is
-- due by now belongs to the tick.
WITH input AS (SELECT $1::timestamptz AS now, $2::text AS tzdata_version),
due AS MATERIALIZED (
    SELECT j.*, NULL::text AS edition
    FROM scheduled_jobs j
    WHERE (j.tenant_id, j.id) IN (SELECT u.tenant_id, u.id FROM unnest($3::uuid[], $4::uuid[]) AS u (tenant_id, id))
      AND j.next_run_at > (SELECT now FROM input) AND j.tzdata_version <> (SELECT tzdata_version FROM input)
    ORDER BY j.tenant_id, j.id
    FOR NO KEY UPDATE SKIP LOCKED
)
