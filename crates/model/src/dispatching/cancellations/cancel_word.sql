-- Only claims with something to report. A claim whose run was deleted does not hold either.
WITH input AS (SELECT u.* FROM unnest($1::uuid[], $2::bigint[]) AS u (dispatch_id, claim_token)),
seen AS (
    SELECT i.claim_token, (d.claim_token = i.claim_token AND d.status = 'IN_PROGRESS') IS TRUE AS holds, d.cancel_requested_at
    FROM input i
    LEFT JOIN job_dispatch d ON d.id = i.dispatch_id
)
SELECT s.claim_token, s.holds
FROM seen s
WHERE NOT s.holds OR s.cancel_requested_at IS NOT NULL
