-- Whether the login sees the rows of all tenants.
SELECT current_user::text,
       coalesce((SELECT r.rolsuper OR r.rolbypassrls FROM pg_roles r WHERE r.rolname = current_user), false)
           OR EXISTS (SELECT FROM pg_roles d WHERE d.rolname = ANY ($1::text[]) AND pg_has_role(d.oid, 'USAGE'))
