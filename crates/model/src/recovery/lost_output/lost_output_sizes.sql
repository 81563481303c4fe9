-- One probe of the index for each attempt. The length of a stored text is read without the text.
SELECT u.claim_token, o.bytes
FROM unnest($1::uuid[], $2::uuid[], $3::bigint[]) AS u (tenant_id, dispatch_id, claim_token)
CROSS JOIN LATERAL (SELECT sum(octet_length(l.content))::bigint AS bytes FROM live_output l
                    WHERE l.tenant_id = u.tenant_id AND l.dispatch_id = u.dispatch_id AND l.claim_token = u.claim_token) AS o
WHERE o.bytes IS NOT NULL
