-- At most one request per key at a time; the second caller gets an error instead of waiting. The
-- lock is held until the end of the transaction. Two keys with the same hash exclude each other
-- during that time and nothing else. The last number separates these locks from all other locks of this
-- program.
SELECT pg_try_advisory_xact_lock(hashtextextended($1::uuid::text || ' ' || $2::text || ' ' || $3::text, 7310034283826791796))
