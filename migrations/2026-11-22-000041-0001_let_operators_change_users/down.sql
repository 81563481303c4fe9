REVOKE UPDATE (is_system_operator), DELETE ON users FROM sched_api;
