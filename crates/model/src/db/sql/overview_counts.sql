WITH input AS (SELECT $1::uuid AS tenant_id)
SELECT clock_timestamp(),
    (SELECT count(*) FROM scheduled_jobs j WHERE j.tenant_id = input.tenant_id AND j.deleted_at IS NULL AND j.is_enabled AND (j.is_paused AND (j.paused_until > clock_timestamp()) IS NOT FALSE) IS NOT TRUE),
    (SELECT count(*) FROM scheduled_jobs j WHERE j.tenant_id = input.tenant_id AND j.deleted_at IS NULL AND (NOT j.is_enabled OR (j.is_paused AND (j.paused_until > clock_timestamp()) IS NOT FALSE))),
    (SELECT count(*) FROM job_dispatch d WHERE d.claimable_at < 'infinity' AND d.tenant_id = input.tenant_id)
        + (SELECT count(*) FROM job_dispatch d WHERE d.claimable_at = 'infinity' AND d.tenant_id = input.tenant_id),
    (SELECT count(*) FROM worker_claims c CROSS JOIN LATERAL unnest(c.dispatch_ids) AS u (id)
     JOIN job_dispatch d ON d.id = u.id AND d.worker_id = c.worker_id AND d.status = 'IN_PROGRESS' AND d.tenant_id = input.tenant_id),
    (SELECT min(j.next_run_at) FROM scheduled_jobs j WHERE j.tenant_id = input.tenant_id AND j.next_run_at IS NOT NULL AND (j.is_paused AND (j.paused_until > clock_timestamp()) IS NOT FALSE) IS NOT TRUE),
    (SELECT count(*) FROM worker_registration w WHERE w.status <> 'OFFLINE'),
    (SELECT count(*) FROM scheduler_instances),
    EXISTS (SELECT 1 FROM scheduler_instances s WHERE s.is_leader)
FROM input
