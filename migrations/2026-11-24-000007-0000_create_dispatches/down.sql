DROP TABLE dead_letters;
DROP TABLE job_ends;
DROP TABLE skipped_fires;
DROP TRIGGER scheduled_jobs_deleted ON scheduled_jobs;
DROP FUNCTION delete_dispatches_of_job();
DROP TABLE job_dispatch;
DROP FUNCTION check_job_of_dispatch();
DROP SEQUENCE claim_token_seq;
