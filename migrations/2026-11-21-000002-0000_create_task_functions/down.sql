DROP TABLE scheduler_job_types;
DROP TABLE task_functions;
DROP TABLE queues;
