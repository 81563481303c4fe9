REVOKE UPDATE (name, scopes, expires_at) ON api_keys FROM sched_api;
