-- What waits of one job, for those who cancel or delete it: by fire time the retry of something old lies behind all of history. A dispatch
-- leaves it when it is claimed, with an update that every index of the table has to follow anyway, and its end does not touch it. That the job
-- is not NULL, which it never is, is said so that only statements about a job may use it: what waits is counted in its own indexes.
CREATE INDEX CONCURRENTLY job_dispatch_waiting_job_idx ON job_dispatch (job_id) WHERE claimable_at IS NOT NULL AND job_id IS NOT NULL;
