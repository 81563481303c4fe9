-- Entries of the audit log, in their order.
INSERT INTO audit_log (tenant_id, actor, action, target_type, target_id, before, after, request_id, address)
SELECT * FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::jsonb[], $7::jsonb[], $8::text[], $9::text[])
