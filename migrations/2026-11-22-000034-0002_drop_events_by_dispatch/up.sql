-- The events of a dispatch are those of its job that name it, which are found by the job. An index of their own took a fourth to a third of the
-- time of a claim or an end of 500: every execution writes two events.
DROP INDEX events_dispatch_idx;
