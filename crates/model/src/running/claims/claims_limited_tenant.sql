-- As claims_limited_tenants, of one, for whom it waits.
SELECT pg_advisory_xact_lock(1935895652, hashtext($1::uuid::text)) IS NULL
