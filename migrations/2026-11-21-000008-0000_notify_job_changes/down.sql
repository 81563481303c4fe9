DROP TRIGGER scheduled_jobs_settings_updated ON scheduled_jobs;
DROP TRIGGER scheduled_jobs_inserted ON scheduled_jobs;
DROP FUNCTION notify_scheduled_jobs_changed();
