SELECT f.user_id, f.email, f.password_hash, f.is_active, f.is_system_operator, f.tenant_id, f.tenant_slug, f.role FROM find_account($1) AS f
