-- An attempt whose end is not stored yet keeps its rows, and the worker calls again.
WITH input AS (SELECT u.* FROM unnest($1::uuid[], $2::bigint[]) AS u (dispatch_id, claim_token)),
over AS MATERIALIZED (
    SELECT i.dispatch_id, i.claim_token, d.tenant_id
    FROM input i
    LEFT JOIN job_dispatch d ON d.id = i.dispatch_id
    WHERE (d.claim_token = i.claim_token AND d.status = 'IN_PROGRESS') IS NOT TRUE
),
output AS (
    DELETE FROM live_output o USING over v
    WHERE o.tenant_id = v.tenant_id AND o.dispatch_id = v.dispatch_id AND o.claim_token = v.claim_token
),
progress AS (
    DELETE FROM live_progress p USING over v
    WHERE p.tenant_id = v.tenant_id AND p.dispatch_id = v.dispatch_id AND p.claim_token = v.claim_token
)
SELECT v.claim_token FROM over v
