DROP TRIGGER scheduled_jobs_rescheduled ON scheduled_jobs;
DROP TRIGGER scheduled_jobs_inserted_without_cursor ON scheduled_jobs;
DROP FUNCTION note_stale_cursor();
DROP TABLE scheduled_job_versions;
DROP FUNCTION note_stored_version();
