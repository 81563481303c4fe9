-- Leaves out tenants whose quota another claim has locked. Advisory locks, which only claims hold:
-- the rows of tenants are locked by transactions that write their jobs, for as long as those take.
-- Two tenants that share a lock by hash collision wait for each other, no more.
SELECT t.id FROM unnest($1::uuid[]) AS t (id) WHERE pg_try_advisory_xact_lock(1935895652, hashtext(t.id::text))
