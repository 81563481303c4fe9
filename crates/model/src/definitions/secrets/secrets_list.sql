WITH input AS (SELECT $1::uuid AS tenant_id, $2::text AS after_name, $3::text AS after_project, $4::bigint AS max_rows)
SELECT s.id, s.project_id, s.name, s.key_id, s.version, s.created_at, s.created_src, s.updated_at, s.updated_src, p.name
FROM input i
JOIN secrets s ON s.tenant_id = i.tenant_id
LEFT JOIN projects p ON p.tenant_id = s.tenant_id AND p.id = s.project_id
WHERE (s.name, coalesce(p.name, '')) > (i.after_name, i.after_project)
ORDER BY s.name, coalesce(p.name, '')
LIMIT (SELECT max_rows FROM input)
