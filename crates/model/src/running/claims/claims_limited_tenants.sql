-- Tenants of whose quota somebody claims at this moment are left out. Locks of their own, which nobody holds but claims: the rows of tenants
-- are held by whoever writes their jobs, for as long as that takes. Two that happen to share a lock wait for each other, no more.
SELECT t.id FROM unnest($1::uuid[]) AS t (id) WHERE pg_try_advisory_xact_lock(1935895652, hashtext(t.id::text))
