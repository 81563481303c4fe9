-- The only text that inserts runs: those of `new`, which the statement before it defines.
--
-- The unique key (job, fire time, trigger) decides between two inserts of the same run: the second
-- one inserts nothing. A run that exceeds max_instances is queued: no claim reaches 'infinity'. A
-- run without its own arguments names the version of its job, which is stored (is_version_stored).
, created AS (
    INSERT INTO job_dispatch (
        id, tenant_id, job_id, scheduled_for, available_at, claimable_at, expires_at, queue,
        priority, job_version, args, is_catch_up, follows, triggered_by, triggered_by_user,
        trigger_id, retry_of, idempotency_key, traceparent, scheduler_instance_id, term)
    SELECT n.id, n.tenant_id, n.job_id, n.scheduled_for, n.available_at,
           CASE WHEN n.is_queued THEN 'infinity' ELSE n.available_at END, n.expires_at, n.queue,
           n.priority, n.job_version, n.args, n.is_catch_up, n.follows, n.triggered_by,
           n.triggered_by_user, n.trigger_id, n.retry_of,
           n.idempotency_key, n.traceparent, n.scheduler_instance_id, n.term
    FROM new n
    ON CONFLICT (job_id, scheduled_for, trigger_id) DO NOTHING
    RETURNING id, tenant_id, job_id, available_at, claimable_at
)
