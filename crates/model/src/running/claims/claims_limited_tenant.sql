-- As claims_limited_tenants, for one tenant, and waits for the lock.
SELECT pg_advisory_xact_lock(1935895652, hashtext($1::uuid::text)) IS NULL
