-- Deliveries that rules require, one per rule and event.
INSERT INTO notification_deliveries (tenant_id, id, channel_id, channel_name, rule_id, rule_name, kind, event_transaction_id, event_id, job_id,
                                     subject_dispatch_id, body, held_back)
SELECT u.tenant_id, u.id, u.channel_id, u.channel_name, u.rule_id, u.rule_name, u.kind, u.event_transaction_id, u.event_id, u.job_id,
       u.subject_dispatch_id, u.body, u.held_back
FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::text[], $5::uuid[], $6::text[], $7::text[], $8::bigint[], $9::bigint[], $10::uuid[],
            $11::uuid[], $12::jsonb[], $13::integer[])
    AS u (tenant_id, id, channel_id, channel_name, rule_id, rule_name, kind, event_transaction_id, event_id, job_id, subject_dispatch_id, body, held_back)
ON CONFLICT (tenant_id, rule_id, event_transaction_id, event_id) DO NOTHING
