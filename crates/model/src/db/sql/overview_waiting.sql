SELECT d.queue, count(*), coalesce(min(d.claimable_at) FILTER (WHERE d.claimable_at < 'infinity'), min(d.available_at)),
       EXISTS (SELECT 1 FROM worker_registration w WHERE d.queue = ANY (w.queues) AND w.status IN ('IDLE', 'BUSY')),
       coalesce(bool_or(q.is_paused), false)
FROM job_dispatch d
LEFT JOIN queues q ON q.tenant_id = d.tenant_id AND q.name = d.queue
WHERE d.claimable_at IS NOT NULL AND d.tenant_id = $1
GROUP BY d.queue
ORDER BY d.queue
