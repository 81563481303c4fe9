DROP TABLE scheduled_job_versions;
DROP TABLE scheduled_jobs;
