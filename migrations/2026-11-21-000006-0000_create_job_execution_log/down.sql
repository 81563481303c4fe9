DROP TABLE maintenance.job_execution_output;
DROP TABLE maintenance.job_execution_log;
DROP TABLE job_execution_output;
DROP TABLE job_execution_log;
DROP SCHEMA maintenance;
