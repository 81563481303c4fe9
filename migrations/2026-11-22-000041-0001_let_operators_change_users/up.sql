-- Who operates the installation says who else does, and deletes users. The policy `operated` lets nobody else write users.
GRANT UPDATE (is_system_operator), DELETE ON users TO sched_api;
