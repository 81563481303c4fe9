-- Rules with the names of their objects, by name. Two of the joins may find nothing, so this is raw
-- SQL.
WITH input AS (SELECT $1::uuid AS tenant_id, $2::text AS after_name, $3::text AS exact_name, $4::bigint AS max_rows)
SELECT r.id, r.name, r.description, c.name, r.kinds, p.name, j.name, r.min_interval_seconds, r.is_active, r.version,
       r.created_at, r.created_src, r.updated_at, r.updated_src
FROM input i
JOIN notification_rules r ON r.tenant_id = i.tenant_id AND r.name > i.after_name AND (i.exact_name IS NULL OR r.name = i.exact_name)
JOIN notification_channels c ON c.tenant_id = r.tenant_id AND c.id = r.channel_id
LEFT JOIN projects p ON p.tenant_id = r.tenant_id AND p.id = r.project_id
LEFT JOIN scheduled_jobs j ON j.tenant_id = r.tenant_id AND j.id = r.job_id
ORDER BY r.name
LIMIT (SELECT max_rows FROM input)
