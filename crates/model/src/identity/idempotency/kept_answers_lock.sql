-- At most one request under a key at a time; who comes second is told so instead of waiting. Held to the end of the transaction. Two keys
-- whose hashes meet exclude each other for that moment and nothing else. The last number sets these locks apart from all others of ours.
SELECT pg_try_advisory_xact_lock(hashtextextended($1::uuid::text || ' ' || $2::text || ' ' || $3::text, 7310034283826791796))
