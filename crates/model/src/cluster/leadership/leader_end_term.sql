-- greatest: a database clock that was set back must not block take-overs. A leader with a request
-- to step down in this term has stepped down when it resigns, even for another reason.
WITH input AS (SELECT $1::bigint AS term, $2::text AS reason),
cleared AS (
    UPDATE scheduler_instances s
    SET is_leader = false, term = NULL, leader_since = NULL
    FROM input i
    WHERE s.is_leader AND s.term = i.term
    RETURNING i.term, s.last_heartbeat, clock_timestamp() AS now, CASE WHEN i.reason = 'resigned' AND s.step_down_term = i.term THEN 'stepped_down' ELSE i.reason END AS reason
)
UPDATE leader_terms t
SET ended_at = greatest(c.now, t.started_at, t.lease_expired_at), end_reason = c.reason,
    lease_expired_at = coalesce(t.lease_expired_at,
                                CASE WHEN c.last_heartbeat + t.lease_ms * interval '1 ms' < c.now
                                     THEN greatest(c.last_heartbeat + t.lease_ms * interval '1 ms', t.started_at) END)
FROM cleared c
WHERE t.term = c.term AND t.ended_at IS NULL
RETURNING t.term
