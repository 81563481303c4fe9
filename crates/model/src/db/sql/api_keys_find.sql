SELECT k.tenant_id, t.slug, k.id, k.key_hash, k.hash_key_id, k.scopes,
       k.user_id, u.email, m.role, u.is_system_operator, u.is_active,
       k.revoked_at IS NOT NULL,
       coalesce(k.expires_at <= now(), false),
       coalesce(k.last_used_at < now() - interval '1 minute', true)
FROM api_keys k
JOIN tenants t ON t.id = k.tenant_id
LEFT JOIN memberships m ON m.tenant_id = k.tenant_id AND m.user_id = k.user_id
LEFT JOIN users u ON u.id = m.user_id
WHERE k.key_prefix = $1
