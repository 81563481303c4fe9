-- What an operator asks of a leader, and how far the clock of a scheduler's host is from the database's.
--
-- A request to step down names the term it is meant for: one that comes too late reaches no later term, not even of the same
-- scheduler. So nothing needs to take a request back.

ALTER TABLE scheduler_instances
    ADD COLUMN step_down_requested_at timestamptz,
    ADD COLUMN step_down_term         bigint,
    ADD COLUMN clock_offset_seconds   double precision,
    ADD CONSTRAINT scheduler_instances_step_down_has_term_check CHECK ((step_down_requested_at IS NULL) = (step_down_term IS NULL));
COMMENT ON COLUMN scheduler_instances.step_down_requested_at IS 'When an operator last asked it to step down; NULL if nobody has.';
COMMENT ON COLUMN scheduler_instances.step_down_term         IS 'The term for which that was asked; in every other term the request counts for nothing.';
COMMENT ON COLUMN scheduler_instances.clock_offset_seconds   IS 'How far the database clock was ahead of the clock of its host, as of the heartbeat before the last; NULL before that. Shown, never used.';
