SELECT f.tenant_id, f.tenant_slug, f.id, f.key_hash, f.hash_key_id, f.scopes, f.user_id, f.email, f.role, f.is_system_operator, f.is_active,
       f.expires_at, f.is_revoked, f.is_expired, f.is_to_be_touched
FROM find_api_key($1) AS f
