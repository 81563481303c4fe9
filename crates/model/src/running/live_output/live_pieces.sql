SELECT o.seq, o.stream, o.starts_at, o.content
FROM live_output o
WHERE o.tenant_id = $1 AND o.dispatch_id = $2 AND o.claim_token = $3 AND o.seq > $4
ORDER BY o.seq
LIMIT 200
