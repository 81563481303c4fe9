DROP TABLE job_dependencies;
DROP TABLE scheduled_jobs;
DROP FUNCTION notify_scheduled_jobs_changed();
DROP FUNCTION check_settings_of_job();
