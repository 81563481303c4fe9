DROP TABLE job_templates;
DROP TABLE calendars;
DROP TABLE scheduler_job_types;
DROP TABLE secrets;
DROP TABLE task_functions;
