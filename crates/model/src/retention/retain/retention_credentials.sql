-- An expired session has no use, and the audit log has its sign-in. A key that has
-- expired or was revoked stays in the list for a while. Neither can become valid again.
WITH input AS (SELECT $1::timestamptz AS finished, $2::bigint AS page),
sessions AS (
    DELETE FROM sessions s
    WHERE s.id IN (SELECT o.id FROM sessions o WHERE o.idle_until <= now()
                   ORDER BY o.idle_until LIMIT (SELECT page FROM input) FOR UPDATE SKIP LOCKED)
    RETURNING s.id
),
keys AS (
    DELETE FROM api_keys k
    WHERE (k.tenant_id, k.id) IN (SELECT o.tenant_id, o.id FROM api_keys o, input i
                                  -- NULL if the key is valid without an end.
                                  WHERE least(o.expires_at, o.revoked_at) < i.finished
                                  LIMIT (SELECT page FROM input) FOR UPDATE OF o SKIP LOCKED)
    RETURNING k.id
)
SELECT (SELECT count(*) FROM sessions), (SELECT count(*) FROM keys)
