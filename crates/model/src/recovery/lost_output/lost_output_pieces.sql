SELECT l.claim_token, l.stream, l.starts_at, l.content
FROM unnest($1::uuid[], $2::uuid[], $3::bigint[]) AS u (tenant_id, dispatch_id, claim_token)
CROSS JOIN LATERAL (SELECT o.* FROM live_output o
                    WHERE o.tenant_id = u.tenant_id AND o.dispatch_id = u.dispatch_id AND o.claim_token = u.claim_token
                    ORDER BY o.seq) AS l
ORDER BY l.claim_token, l.stream, l.seq
