-- The first entries of scheduled_jobs_due_idx.
SELECT t.slug, d.name, d.due, d.is_paused_now
FROM (SELECT j.tenant_id, j.name, j.burst_order, greatest(j.next_run_at, j.dispatch_lock_until) AS due,
             j.is_paused AND (j.paused_until > clock_timestamp()) IS NOT FALSE AS is_paused_now
      FROM scheduled_jobs j
      WHERE j.next_run_at IS NOT NULL
      ORDER BY greatest(j.next_run_at, j.dispatch_lock_until), j.burst_order
      LIMIT $1) AS d
JOIN tenants t ON t.id = d.tenant_id
ORDER BY d.due, d.burst_order
