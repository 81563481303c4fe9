-- The oldest batch of ends and the oldest runs, each by the order of their ids. The absolute value
-- also finds rows that are younger than the clock after it was set back.
WITH input AS (SELECT $1::float8 AS seconds)
SELECT coalesce((SELECT abs(extract(epoch FROM clock_timestamp() - e.created_at)) >= i.seconds
                 FROM uncounted_ends e ORDER BY e.batch_id LIMIT 1), false)
    OR coalesce((SELECT abs(extract(epoch FROM clock_timestamp() - o.opened_at)) >= i.seconds
                 FROM uncounted_openings o ORDER BY o.id LIMIT 1), false)
FROM input i
