-- Reads all jobs, and lets everybody read and write them meanwhile.
ALTER TABLE scheduled_jobs VALIDATE CONSTRAINT scheduled_jobs_made_from_check;
