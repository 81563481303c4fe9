-- The last outcome of each sending run in a section of the stream. A retry of a run sends the same
-- delivery. Sending runs have their own arguments. A user may have created a run manually with any
-- arguments.
WITH input AS (SELECT $1::uuid AS tenant_id, $2::text AS job_name, $3::bigint AS transaction_id, $4::bigint AS id,
                      $5::bigint AS upto_transaction_id, $6::bigint AS upto_id),
ends AS (
    SELECT DISTINCT ON (e.dispatch_id) e.dispatch_id, e.created_at, e.payload,
           coalesce(e.payload ->> 'dispatch_status', CASE e.event_type WHEN 'dispatch_cancelled' THEN 'CANCELLED' ELSE 'FAILED' END) AS dispatch_status
    FROM input i
    JOIN scheduled_jobs j ON j.tenant_id = i.tenant_id AND j.name = i.job_name
    JOIN event_stream e ON e.tenant_id = i.tenant_id AND e.job_id = j.id
        AND (e.transaction_id, e.id) > (i.transaction_id::text::xid8, i.id)
        AND (e.transaction_id, e.id) <= (i.upto_transaction_id::text::xid8, i.upto_id)
        -- The same for the indexes of batches, which do not contain the ids of their events.
        AND e.transaction_id >= i.transaction_id::text::xid8 AND e.transaction_id <= i.upto_transaction_id::text::xid8
    WHERE e.event_type IN ('schedule_execution_completed', 'schedule_execution_lost', 'dispatch_cancelled', 'dispatch_expired')
    ORDER BY e.dispatch_id, e.transaction_id DESC, e.id DESC
),
named AS (
    SELECT e.*,
           CASE WHEN d.args ->> 'tenant' ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' THEN (d.args ->> 'tenant')::uuid END AS tenant_id,
           CASE WHEN d.args ->> 'delivery' ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' THEN (d.args ->> 'delivery')::uuid END AS delivery_id
    FROM ends e
    JOIN job_dispatch d ON d.id = e.dispatch_id
)
UPDATE notification_deliveries d
SET status = CASE n.dispatch_status WHEN 'COMPLETED' THEN 'sent' WHEN 'PENDING' THEN 'sending' WHEN 'IN_PROGRESS' THEN 'sending' ELSE 'failed' END,
    attempts = greatest(d.attempts, coalesce((n.payload ->> 'attempt')::integer, 0)),
    error_class = CASE WHEN n.dispatch_status <> 'COMPLETED' THEN coalesce(n.payload ->> 'error_class', n.payload ->> 'reason', 'cancelled') END,
    -- The worker stored more details than the attempt's public error contains.
    error_message = CASE WHEN n.dispatch_status = 'COMPLETED' THEN NULL
                         WHEN d.error_class = n.payload ->> 'error_class' AND d.error_message IS NOT NULL THEN d.error_message
                         ELSE left(coalesce(n.payload ->> 'error', n.payload ->> 'reason'), 1000) END,
    -- A run that expired while it waited has no attempt.
    dispatch_id = n.dispatch_id,
    updated_at = n.created_at
FROM named n
WHERE d.tenant_id = n.tenant_id AND d.id = n.delivery_id AND d.status IN ('sending', 'failed')
