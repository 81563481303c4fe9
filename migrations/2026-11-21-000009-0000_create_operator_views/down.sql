DROP VIEW job_health;
DROP VIEW leader_history;
DROP VIEW running_dispatches;
DROP VIEW queue_depth;
