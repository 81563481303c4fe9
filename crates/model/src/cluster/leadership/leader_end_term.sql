-- greatest: a database clock that was set back must not keep anybody from taking over.
-- A leader that was asked to step down in this term and resigns has stepped down, whatever else made it resign.
WITH input AS (SELECT $1::bigint AS term, $2::text AS reason),
cleared AS (
    UPDATE scheduler_instances s
    SET is_leader = false, term = NULL, leader_since = NULL
    FROM input i
    WHERE s.is_leader AND s.term = i.term
    RETURNING i.term, CASE WHEN i.reason = 'resigned' AND s.step_down_term = i.term THEN 'stepped_down' ELSE i.reason END AS reason
)
UPDATE leader_terms t
SET ended_at = greatest(clock_timestamp(), t.started_at), end_reason = c.reason
FROM cleared c
WHERE t.term = c.term AND t.ended_at IS NULL
RETURNING t.term
