-- The waiting line by tenants takes the place and the name of the old one. Normally the old one would stay until the release after, for
-- workers of the release before; but there is no release before, and every dispatch that is made would pay for a second line.
DROP INDEX job_dispatch_waiting_idx;
ALTER INDEX job_dispatch_tenants_waiting_idx RENAME TO job_dispatch_waiting_idx;
COMMENT ON INDEX job_dispatch_waiting_idx IS 'The waiting line that claims read; holds only rows that can be claimed now or at a known time, so its cost does not grow with history.';
