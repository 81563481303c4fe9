-- Inserts a session and deletes the oldest ones of the same user above the limit.
WITH input AS (SELECT $1::uuid AS tenant_id, $2::uuid AS id, $3::uuid AS user_id, $4::bytea AS token_hash, $5::text AS hash_key_id,
                      $6::text AS user_agent, $7::text AS address, $8::float8 AS idle_seconds, $9::float8 AS seconds, $10::bigint AS most,
                      clock_timestamp() AS present),
gone AS (
    DELETE FROM sessions s USING (
        SELECT o.tenant_id, o.id FROM sessions o, input i
        WHERE o.tenant_id = i.tenant_id AND o.user_id = i.user_id
        ORDER BY o.created_at DESC, o.id OFFSET (SELECT most - 1 FROM input)) AS old
    WHERE s.tenant_id = old.tenant_id AND s.id = old.id
)
INSERT INTO sessions (tenant_id, id, user_id, token_hash, hash_key_id, created_at, last_seen_at, idle_until, expires_at, user_agent, address)
SELECT i.tenant_id, i.id, i.user_id, i.token_hash, i.hash_key_id, i.present, i.present,
       i.present + make_interval(secs => least(i.idle_seconds, i.seconds)), i.present + make_interval(secs => i.seconds), i.user_agent, i.address
FROM input i
RETURNING id, user_id, created_at, last_seen_at, idle_until, expires_at, user_agent, address
