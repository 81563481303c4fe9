-- The row of the flag, if it is set and no transaction that pauses or limits is at its commit.
SELECT is_restricted FROM claim_restrictions WHERE is_restricted FOR NO KEY UPDATE SKIP LOCKED
