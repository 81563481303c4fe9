-- What a trigger needs to know besides its job, which it has locked.
WITH input AS (
    SELECT $1::uuid AS tenant_id, $2::uuid AS function_id, $3::text AS queue, $4::smallint AS priority, $5::smallint AS standard_priority
)
SELECT coalesce(i.queue, f.queue), coalesce(i.priority, q.default_priority, i.standard_priority), f.is_active,
       f.args_schema, (t.quotas ->> 'dispatches_per_minute')::bigint, clock_timestamp()
FROM input i
JOIN task_functions f ON f.tenant_id = i.tenant_id AND f.id = i.function_id
JOIN tenants t ON t.id = i.tenant_id
LEFT JOIN queues q ON q.tenant_id = i.tenant_id AND q.name = coalesce(i.queue, f.queue)
