DROP TABLE scheduled_job_versions;
DROP FUNCTION note_stored_version();
