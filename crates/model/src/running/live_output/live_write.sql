-- Fenced by the current rows of job_dispatch, without locking them, because it is the hot table. A
-- row written in a race with the end of its attempt is still true, is not shown to clients, and is
-- deleted with the rest of the attempt's rows.
WITH attempts AS (
    SELECT u.* FROM unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::boolean[], $5::real[], $6::text[])
        AS u (dispatch_id, claim_token, keep_from, has_progress, percent, message)
),
pieces AS (
    SELECT u.* FROM unnest($7::bigint[], $8::bigint[], $9::text[], $10::bigint[], $11::text[])
        AS u (claim_token, seq, stream, starts_at, content)
),
held AS MATERIALIZED (
    SELECT d.tenant_id, a.*
    FROM attempts a
    JOIN job_dispatch d ON d.id = a.dispatch_id AND d.claim_token = a.claim_token AND d.status = 'IN_PROGRESS'
),
written AS (
    INSERT INTO live_output (tenant_id, dispatch_id, claim_token, seq, stream, starts_at, content)
    SELECT h.tenant_id, h.dispatch_id, h.claim_token, p.seq, p.stream, p.starts_at, p.content
    FROM pieces p JOIN held h ON h.claim_token = p.claim_token
    -- The response to an earlier try may have been lost.
    ON CONFLICT DO NOTHING
),
let_go AS (
    DELETE FROM live_output o
    USING held h
    WHERE o.tenant_id = h.tenant_id AND o.dispatch_id = h.dispatch_id AND o.claim_token = h.claim_token AND o.seq < h.keep_from
),
told AS (
    INSERT INTO live_progress (tenant_id, dispatch_id, claim_token, percent, message)
    SELECT h.tenant_id, h.dispatch_id, h.claim_token, h.percent, h.message FROM held h WHERE h.has_progress
    ON CONFLICT (tenant_id, dispatch_id) DO UPDATE
    SET claim_token = excluded.claim_token, percent = excluded.percent, message = excluded.message, updated_at = clock_timestamp()
    WHERE live_progress.claim_token <= excluded.claim_token
)
SELECT h.claim_token FROM held h
