-- Sets the warm-up jobs to be due at one instant, in the state of jobs without open dispatches.
UPDATE scheduled_jobs AS j
SET next_run_at = {due}, settled_until = {due} - interval '1 second', active_dispatches = 0, queued_dispatches = 0,
    last_fire_at = NULL, dispatch_lock_until = NULL
WHERE j.name LIKE '{warm}-%'
