WITH taken AS (
    UPDATE scheduler_instances
    SET is_leader = true, term = nextval('leader_term_seq'),
        leader_since = clock_timestamp(), last_heartbeat = clock_timestamp()
    WHERE id = $1 AND NOT is_leader
    RETURNING id, hostname, pid, term, leader_since
), begun AS (
    INSERT INTO leader_terms (term, instance_id, hostname, pid, started_at, lease_ms)
    SELECT term, id, hostname, pid, leader_since, $2 FROM taken
    RETURNING term, hostname, pid
)
SELECT b.term, b.hostname, b.pid, former.term, former.end_reason
FROM begun b
LEFT JOIN LATERAL (SELECT t.term, t.end_reason FROM leader_terms t ORDER BY t.term DESC LIMIT 1) former ON true
