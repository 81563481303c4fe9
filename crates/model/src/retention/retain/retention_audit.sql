-- The audit log rejects deletions within its own retention (audit_log_kept_from), so only older
-- entries are selected. Both tables are read from the beginning of their keys, the oldest end. A
-- current term is never old. Removed workers are few, and their names stay as long as history.
WITH input AS (SELECT $1::timestamptz AS audit, $2::timestamptz AS finished, $3::bigint AS page),
audited AS (
    DELETE FROM audit_log a
    USING input
    WHERE a.id IN (SELECT o.id FROM audit_log o ORDER BY o.id LIMIT (SELECT page FROM input)) AND a.created_at < least(input.audit, audit_log_kept_from())
    RETURNING a.id
),
terms AS (
    DELETE FROM leader_terms t
    USING input
    WHERE t.term IN (SELECT o.term FROM leader_terms o ORDER BY o.term LIMIT (SELECT page FROM input)) AND t.ended_at < input.audit
    RETURNING t.term
),
workers AS (
    DELETE FROM known_workers w
    WHERE w.worker_id IN (SELECT k.worker_id FROM known_workers k, input i WHERE k.gone_at < i.finished LIMIT (SELECT page FROM input))
    RETURNING w.worker_id
)
SELECT (SELECT count(*) FROM audited), (SELECT count(*) FROM terms), (SELECT count(*) FROM workers)
