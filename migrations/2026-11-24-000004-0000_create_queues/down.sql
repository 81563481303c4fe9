DROP TABLE tenant_log_usage;
DROP TABLE tenant_usage;
DROP TABLE queue_usage;
DROP TABLE queues;
