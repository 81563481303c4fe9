-- Dead letters apart (DSP-4): what was given up for good, with what it is looked for by, and what somebody decided about it. A table of its
-- own, because an index on `job_dispatch` whose predicate names the state would make every completion write all indexes; this one is written
-- once for each dispatch that dies and never read by what claims and ends.
--
-- A worker of an earlier release that gives up a dispatch while the fleet is being upgraded leaves no row here; its dispatch can be
-- retried by its id like any other. What died before this migration is taken over without its class of error.

CREATE TABLE dead_letters (
    dispatch_id    uuid        NOT NULL,
    tenant_id      uuid        NOT NULL,
    project_id     uuid,
    job_id         uuid        NOT NULL,
    queue          text        NOT NULL,
    error_class    text,
    died_at        timestamptz NOT NULL,
    settled_as     text,
    settled_at     timestamptz,
    settled_by     text,
    settled_reason text,
    retried_as     uuid,
    CONSTRAINT dead_letters_pkey PRIMARY KEY (tenant_id, dispatch_id),
    CONSTRAINT dead_letters_job_fkey FOREIGN KEY (tenant_id, job_id) REFERENCES scheduled_jobs (tenant_id, id) ON DELETE CASCADE,
    CONSTRAINT dead_letters_settled_as_check CHECK (settled_as IN ('retried', 'discarded')),
    CONSTRAINT dead_letters_settled_whole_check CHECK ((settled_as IS NULL) = (settled_at IS NULL) AND (settled_as IS NULL) = (settled_by IS NULL)),
    CONSTRAINT dead_letters_retried_iff_as_check CHECK ((settled_as IS NOT DISTINCT FROM 'retried') = (retried_as IS NOT NULL))
);
CREATE INDEX dead_letters_open_idx ON dead_letters (tenant_id, dispatch_id) WHERE settled_at IS NULL;
CREATE INDEX dead_letters_job_id_idx ON dead_letters (tenant_id, job_id, dispatch_id);
COMMENT ON TABLE  dead_letters                IS 'Dispatches that were given up for good, and what somebody decided about them. A row goes with its dispatch.';
COMMENT ON INDEX  dead_letters_open_idx       IS 'What nobody has decided about yet, however much has been.';
COMMENT ON INDEX  dead_letters_job_id_idx     IS 'Those of a job; also what the deletion of a job looks for.';
COMMENT ON COLUMN dead_letters.dispatch_id    IS 'The dispatch, whose state is DEAD_LETTER and stays so.';
COMMENT ON COLUMN dead_letters.tenant_id      IS 'Owner.';
COMMENT ON COLUMN dead_letters.project_id     IS 'Project of its job when it died, if any.';
COMMENT ON COLUMN dead_letters.job_id         IS 'The job.';
COMMENT ON COLUMN dead_letters.queue          IS 'Queue it waited in.';
COMMENT ON COLUMN dead_letters.error_class    IS 'Class of the error of its last attempt; NULL where that had none, or it died before this table was made.';
COMMENT ON COLUMN dead_letters.died_at        IS 'When it was given up, by the database clock.';
COMMENT ON COLUMN dead_letters.settled_as     IS 'What was decided: retried (a dispatch of its own runs it again) or discarded; NULL while it is open.';
COMMENT ON COLUMN dead_letters.settled_at     IS 'When, by the database clock; NULL while it is open.';
COMMENT ON COLUMN dead_letters.settled_by     IS 'By whom; NULL while it is open.';
COMMENT ON COLUMN dead_letters.settled_reason IS 'Why, for people, if they said.';
COMMENT ON COLUMN dead_letters.retried_as     IS 'The dispatch that runs it again; NULL unless it was retried.';

INSERT INTO dead_letters (dispatch_id, tenant_id, project_id, job_id, queue, died_at)
SELECT d.id, d.tenant_id, j.project_id, d.job_id, d.queue, d.completed_at
FROM job_dispatch d JOIN scheduled_jobs j ON j.tenant_id = d.tenant_id AND j.id = d.job_id
WHERE d.status = 'DEAD_LETTER';

-- What runs again is a dispatch of its own, and one at most for each that has finished: the key of dispatches sees to that, because its
-- trigger_id is computed from the first one's id. It cannot be that id itself, which triggers by hand have as their own trigger_id.
ALTER TABLE job_dispatch ADD COLUMN retry_of uuid;
COMMENT ON COLUMN job_dispatch.retry_of      IS 'The finished dispatch that this one runs again by command; NULL for all others.';
COMMENT ON COLUMN job_dispatch.scheduled_for IS 'The fire time; for a trigger, when it was made; for a dependency, when the other job ended; for a retry, as of the dispatch that it runs again.';
COMMENT ON COLUMN job_dispatch.trigger_id    IS 'NULL for a fire time of the schedule; for a dependency, the dispatch whose end made this one; for a retry, computed from retry_of; otherwise the id of this trigger, so that it never takes the place of a fire time.';
