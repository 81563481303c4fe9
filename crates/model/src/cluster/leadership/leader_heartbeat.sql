-- A leader that was stopped or cut off renews too late: the history keeps when its lease expired. The
-- leader then gives up the term.
WITH before AS (
    SELECT s.id, s.last_heartbeat FROM scheduler_instances s WHERE s.id = $1
),
renewed AS (
    UPDATE scheduler_instances s
    SET last_heartbeat = clock_timestamp(), clock_offset_seconds = $2, failing_tasks = $3
    FROM before b
    WHERE s.id = b.id
    RETURNING s.term, s.leader_since, s.step_down_term, s.last_heartbeat, b.last_heartbeat AS former_heartbeat
),
expired AS (
    UPDATE leader_terms t
    SET lease_expired_at = greatest(r.former_heartbeat + t.lease_ms * interval '1 ms', t.started_at)
    FROM renewed r
    WHERE t.term = r.term AND t.ended_at IS NULL AND t.lease_expired_at IS NULL
      AND r.former_heartbeat + t.lease_ms * interval '1 ms' < r.last_heartbeat
)
SELECT r.term, r.leader_since, r.step_down_term, r.last_heartbeat FROM renewed r
