UPDATE api_keys
SET last_used_at = now()
WHERE tenant_id = $1 AND id = $2 AND coalesce(last_used_at < now() - interval '1 minute', true)
