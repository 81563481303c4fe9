SELECT c.tenant_id, c.id, c.name, c.version, c.definition
FROM calendars c
JOIN unnest($1::uuid[], $2::text[]) AS u (tenant_id, name) ON c.tenant_id = u.tenant_id AND c.name = u.name
