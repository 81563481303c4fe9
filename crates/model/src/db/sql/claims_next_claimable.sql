-- Bounded: reads at most 200 entries of the waiting line, however long it is. Missing an earlier one costs the difference up to
-- the poll interval and nothing else.
SELECT (extract(epoch FROM min(waiting.claimable_at) - now()) * 1000)::bigint
FROM (
    SELECT d.claimable_at
    FROM job_dispatch d
    WHERE d.queue = ANY ($1::text[]) AND d.claimable_at > now() AND d.claimable_at < 'infinity'
    LIMIT 200
) AS waiting
