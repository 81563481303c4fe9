SELECT f.name, f.handler_config
FROM task_functions f
WHERE f.tenant_id = $1 AND (jsonb_path_exists(f.handler_config, '$.**.secret') OR f.handler_config ? 'secrets')
ORDER BY f.name
