UPDATE tenant_usage t SET dispatched = t.dispatched + u.dispatched
FROM unnest($1::uuid[], $2::bigint[]) AS u (tenant_id, dispatched)
WHERE t.tenant_id = u.tenant_id
RETURNING t.tenant_id
