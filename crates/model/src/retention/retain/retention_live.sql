-- Live output of dead workers; other workers delete their own.
WITH input AS (SELECT $1::bigint AS page),
told AS (
    SELECT DISTINCT o.tenant_id, o.dispatch_id, o.claim_token FROM live_output o
    UNION
    SELECT p.tenant_id, p.dispatch_id, p.claim_token FROM live_progress p
),
over AS MATERIALIZED (
    SELECT t.* FROM told t
    WHERE NOT EXISTS (SELECT 1 FROM job_dispatch d
                      WHERE d.id = t.dispatch_id AND d.claim_token = t.claim_token AND d.status = 'IN_PROGRESS')
    LIMIT (SELECT page FROM input)
),
output AS (
    DELETE FROM live_output o USING over v
    WHERE o.tenant_id = v.tenant_id AND o.dispatch_id = v.dispatch_id AND o.claim_token = v.claim_token
),
progress AS (
    DELETE FROM live_progress p USING over v
    WHERE p.tenant_id = v.tenant_id AND p.dispatch_id = v.dispatch_id AND p.claim_token = v.claim_token
)
SELECT count(*) FROM over
