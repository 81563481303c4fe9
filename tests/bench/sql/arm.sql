-- Sets the jobs of bench.due to be due at one instant, in the state of jobs without open
-- dispatches. Their schedule is a crontab expression for this second of every hour, so that the
-- next fire is computed as for any cron job.
UPDATE scheduled_jobs AS j
SET next_run_at = {due}, settled_until = {due} - interval '1 second', job_type = 'cron',
    schedule_config = jsonb_build_object('seconds', true,
        'expression', to_char({due} AT TIME ZONE 'UTC', 'FMSS FMMI') || ' * * * *'),
    active_dispatches = 0, queued_dispatches = 0, last_fire_at = NULL, dispatch_lock_until = NULL
FROM bench.due AS d
WHERE j.tenant_id = d.tenant_id AND j.id = d.id
