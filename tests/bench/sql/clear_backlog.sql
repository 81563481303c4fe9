-- Removes the drained dispatches and their history; rows from before bench.mark stay.
DELETE FROM job_execution_log WHERE started_at >= (SELECT at FROM bench.mark);
DELETE FROM job_dispatch WHERE id >= (SELECT first_id FROM bench.mark);
