DROP TRIGGER scheduled_jobs_deleted ON scheduled_jobs;
DROP FUNCTION delete_dispatches_of_job();
DROP TRIGGER job_dispatch_moved ON job_dispatch;
DROP TRIGGER job_dispatch_inserted ON job_dispatch;
DROP FUNCTION check_job_of_dispatch();

-- Nothing should have lost its job; if something has, it can never run, and the constraint would not hold.
DELETE FROM job_dispatch d WHERE NOT EXISTS (SELECT FROM scheduled_jobs j WHERE j.tenant_id = d.tenant_id AND j.id = d.job_id);
ALTER TABLE job_dispatch ADD CONSTRAINT job_dispatch_job_fkey
    FOREIGN KEY (tenant_id, job_id) REFERENCES scheduled_jobs (tenant_id, id) ON DELETE CASCADE;
