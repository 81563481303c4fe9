WITH input AS (SELECT $1::uuid AS tenant_id, $2::uuid AS id)
SELECT d.job_id, d.created_at, d.status, d.attempt, d.claimed_at, d.claim_token, p.percent, p.message, p.updated_at
FROM input i
JOIN job_dispatch d ON d.tenant_id = i.tenant_id AND d.id = i.id
LEFT JOIN live_progress p ON p.tenant_id = d.tenant_id AND p.dispatch_id = d.id AND p.claim_token = d.claim_token
                         AND d.status = 'IN_PROGRESS'
