INSERT INTO unserved_queues (queue, since)
SELECT u.queue, coalesce((SELECT min(d.claimable_at) FROM job_dispatch d WHERE d.queue = u.queue AND d.claimable_at <= now() AND d.claimable_at < 'infinity'), now())
FROM unnest($1::text[]) AS u (queue)
ON CONFLICT (queue) DO NOTHING
RETURNING queue, since
