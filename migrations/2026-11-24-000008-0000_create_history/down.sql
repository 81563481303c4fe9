DROP TABLE live_progress;
DROP TABLE live_output;
DROP TABLE attempt_minutes;
DROP TABLE maintenance.job_execution_output;
DROP TABLE maintenance.job_execution_log;
DROP TABLE job_execution_output;
DROP TABLE job_execution_log;
