SELECT f.tenant_id, f.user_id, f.email, f.role, f.is_system_operator, f.is_active FROM find_member($1, $2) AS f
