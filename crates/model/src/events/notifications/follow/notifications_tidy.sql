-- Deliveries that nothing else would end. They have waited too long, or their run has ended or was
-- deleted without a report from the stream (after a restore, or while the stream is blocked).
WITH input AS (
    SELECT clock_timestamp() AS at, $1::double precision AS waiting_seconds, $2::double precision AS sending_seconds, $3::bigint AS max_rows
),
late AS MATERIALIZED (
    SELECT d.tenant_id, d.id
    FROM notification_deliveries d
    WHERE d.status = 'waiting' AND d.created_at < (SELECT i.at - make_interval(secs => i.waiting_seconds) FROM input i)
    ORDER BY d.created_at
    LIMIT (SELECT max_rows FROM input)
),
given_up AS (
    UPDATE notification_deliveries d
    SET status = 'failed', error_class = 'expired', error_message = 'it waited for its turn for more than a day', updated_at = i.at
    FROM input i, late l
    WHERE d.tenant_id = l.tenant_id AND d.id = l.id AND d.status = 'waiting'
    RETURNING 1
),
untold AS MATERIALIZED (
    SELECT d.tenant_id, d.id, j.status AS dispatch_status, j.attempt
    FROM notification_deliveries d
    LEFT JOIN job_dispatch j ON j.id = d.dispatch_id
    WHERE d.status = 'sending' AND d.updated_at < (SELECT i.at - make_interval(secs => i.sending_seconds) FROM input i)
      AND (j.id IS NULL OR j.status NOT IN ('PENDING', 'IN_PROGRESS'))
    LIMIT (SELECT max_rows FROM input)
),
settled AS (
    UPDATE notification_deliveries d
    SET status = CASE u.dispatch_status WHEN 'COMPLETED' THEN 'sent' ELSE 'failed' END,
        attempts = greatest(d.attempts, coalesce(u.attempt, 0)),
        error_class = CASE u.dispatch_status
            WHEN 'COMPLETED' THEN NULL
            WHEN 'CANCELLED' THEN 'cancelled'
            ELSE coalesce(d.error_class, lower(u.dispatch_status), 'lost') END,
        error_message = CASE
            WHEN u.dispatch_status IN ('COMPLETED', 'CANCELLED') THEN NULL
            WHEN u.dispatch_status IS NULL THEN coalesce(d.error_message, 'the outcome is unknown')
            ELSE d.error_message END,
        updated_at = i.at
    FROM input i, untold u
    WHERE d.tenant_id = u.tenant_id AND d.id = u.id AND d.status = 'sending'
    RETURNING 1
)
SELECT (SELECT count(*) FROM given_up), (SELECT count(*) FROM settled)
