-- What was drained goes, with its history; what was there before bench.mark stays.
DELETE FROM job_execution_log WHERE started_at >= (SELECT at FROM bench.mark);
DELETE FROM job_dispatch WHERE id >= (SELECT first_id FROM bench.mark);
