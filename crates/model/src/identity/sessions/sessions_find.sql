SELECT f.tenant_id, f.id, f.token_hash, f.hash_key_id, f.user_id, f.email, f.role, f.is_system_operator, f.is_active, f.is_over, f.is_to_be_touched
FROM find_session($1) AS f
