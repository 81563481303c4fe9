DROP INDEX events_rare_idx;
DROP INDEX events_dispatch_idx;
DROP INDEX events_job_idx;
DROP INDEX events_tenant_idx;
