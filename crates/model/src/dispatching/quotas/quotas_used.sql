-- Through a function of the database, so that the operator of the installation may query any
-- tenant.
SELECT u.quotas, u.jobs, u.dispatches, u.running, u.log_bytes, u.log_bytes_dropped, u.day FROM find_usage($1) AS u
