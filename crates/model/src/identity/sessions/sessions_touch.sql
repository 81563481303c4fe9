-- An expired session stays expired.
UPDATE sessions
SET last_seen_at = now(), idle_until = least(expires_at, now() + make_interval(secs => $1::float8))
WHERE tenant_id = $2 AND id = $3 AND last_seen_at < now() - interval '1 minute' AND idle_until > now()
