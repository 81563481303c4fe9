-- Both parts read an index of their own: together they are everything that is PENDING.
SELECT d.queue, count(*), coalesce(min(d.claimable_at) FILTER (WHERE d.claimable_at < 'infinity'), min(d.available_at)),
       EXISTS (SELECT 1 FROM worker_registration w WHERE d.queue = ANY (w.queues) AND w.status IN ('IDLE', 'BUSY')),
       coalesce(bool_or(q.is_paused), false)
FROM (SELECT tenant_id, queue, claimable_at, available_at FROM job_dispatch WHERE claimable_at < 'infinity'
      UNION ALL
      SELECT tenant_id, queue, claimable_at, available_at FROM job_dispatch WHERE claimable_at = 'infinity') AS d
LEFT JOIN queues q ON q.tenant_id = d.tenant_id AND q.name = d.queue
WHERE d.tenant_id = $1
GROUP BY d.queue
ORDER BY d.queue
