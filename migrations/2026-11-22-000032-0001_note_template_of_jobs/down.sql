ALTER TABLE scheduled_jobs DROP COLUMN made_from;
