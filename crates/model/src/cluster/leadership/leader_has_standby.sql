-- A scheduler that stepped down or was stalled cannot take over for two leases.
WITH input AS (SELECT $1::double precision AS lease)
SELECT EXISTS (
    SELECT
    FROM input i
    JOIN scheduler_instances s ON NOT s.is_leader AND abs(extract(epoch FROM clock_timestamp() - s.last_heartbeat)) <= i.lease
    WHERE NOT EXISTS (
        SELECT FROM leader_terms t
        WHERE t.instance_id = s.id AND t.end_reason <> 'expired' AND t.ended_at > clock_timestamp() - make_interval(secs => 2 * i.lease)
    )
)
