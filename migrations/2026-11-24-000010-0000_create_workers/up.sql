-- Schedulers with their leadership, workers with their leases and claims, and retention settings.
--
-- Heartbeats rewrite one row per process. Those tables have no index on last_heartbeat, so that the
-- update stays in its page (HOT), and are vacuumed by the number of dead rows.

CREATE SEQUENCE leader_term_seq AS bigint;
COMMENT ON SEQUENCE leader_term_seq IS
    'Terms of leadership. Sequences are WAL-logged: no term is reused, not even after a crash.';

-- A request to step down names its term. A late request has no effect on a later term, not even of
-- the same scheduler, so nothing needs to withdraw it.
CREATE TABLE scheduler_instances (
    id                     uuid        NOT NULL,
    hostname               text        NOT NULL,
    pid                    integer     NOT NULL,
    version                text        NOT NULL,
    started_at             timestamptz NOT NULL DEFAULT clock_timestamp(),
    last_heartbeat         timestamptz NOT NULL DEFAULT clock_timestamp(),
    is_leader              boolean     NOT NULL DEFAULT false,
    leader_since           timestamptz,
    term                   bigint,
    step_down_requested_at timestamptz,
    step_down_term         bigint,
    clock_offset_seconds   double precision,
    failing_tasks          text[]      NOT NULL DEFAULT '{}',
    CONSTRAINT scheduler_instances_pkey PRIMARY KEY (id),
    CONSTRAINT scheduler_instances_pid_check CHECK (pid > 0),
    CONSTRAINT scheduler_instances_leader_has_term_check
        CHECK (is_leader = (leader_since IS NOT NULL) AND is_leader = (term IS NOT NULL)),
    CONSTRAINT scheduler_instances_step_down_has_term_check
        CHECK ((step_down_requested_at IS NULL) = (step_down_term IS NULL))
) WITH (
    fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 100,
    autovacuum_vacuum_cost_delay = 0
);
CREATE UNIQUE INDEX scheduler_instances_one_leader_key ON scheduler_instances (is_leader)
    WHERE is_leader;
COMMENT ON TABLE scheduler_instances IS
    'Scheduler processes. At most one is the leader; every other scheduler with a recent '
    'heartbeat is a standby.';
COMMENT ON INDEX scheduler_instances_one_leader_key IS 'Makes two leaders impossible.';
COMMENT ON COLUMN scheduler_instances.id IS
    'Random identity, created at process start; never derived from host or pid.';
COMMENT ON COLUMN scheduler_instances.hostname IS 'Host; a label only.';
COMMENT ON COLUMN scheduler_instances.pid IS 'Process id on that host; a label only.';
COMMENT ON COLUMN scheduler_instances.version IS 'Version of the program.';
COMMENT ON COLUMN scheduler_instances.started_at IS 'Registration time, by the database clock.';
COMMENT ON COLUMN scheduler_instances.last_heartbeat IS
    'Last heartbeat, by the database clock. Not indexed, so that the update stays in its page.';
COMMENT ON COLUMN scheduler_instances.is_leader IS 'True for the leader.';
COMMENT ON COLUMN scheduler_instances.leader_since IS 'Start of its term; NULL unless leader.';
COMMENT ON COLUMN scheduler_instances.term IS
    'Its term, which fences every write of the leader; NULL unless leader.';
COMMENT ON COLUMN scheduler_instances.step_down_requested_at IS
    'Time of the last request of an operator to step down; NULL if none.';
COMMENT ON COLUMN scheduler_instances.step_down_term IS
    'Term of that request; it has no effect in any other term.';
COMMENT ON COLUMN scheduler_instances.clock_offset_seconds IS
    'Database clock minus host clock, as of the heartbeat before the last; NULL before that. '
    'Displayed, never used.';
COMMENT ON COLUMN scheduler_instances.failing_tasks IS
    'Tasks of the leader that have failed for half a minute or longer, as of the heartbeat.';

CREATE TABLE leader_terms (
    term             bigint      NOT NULL,
    instance_id      uuid        NOT NULL,
    hostname         text        NOT NULL,
    pid              integer     NOT NULL,
    started_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    lease_ms         integer,
    lease_expired_at timestamptz,
    ended_at         timestamptz,
    end_reason       text,
    CONSTRAINT leader_terms_pkey PRIMARY KEY (term),
    CONSTRAINT leader_terms_end_reason_check
        CHECK (end_reason IN ('resigned', 'expired', 'stepped_down')),
    CONSTRAINT leader_terms_ended_has_reason_check
        CHECK ((ended_at IS NULL) = (end_reason IS NULL)),
    CONSTRAINT leader_terms_ended_after_started_check CHECK (ended_at >= started_at),
    CONSTRAINT leader_terms_lease_ms_check CHECK (lease_ms > 0),
    CONSTRAINT leader_terms_lease_expired_within_term_check
        CHECK (lease_expired_at >= started_at AND lease_expired_at <= ended_at)
);
COMMENT ON TABLE leader_terms IS 'All terms of leadership.';
COMMENT ON COLUMN leader_terms.term IS 'Increases with every change of leader.';
COMMENT ON COLUMN leader_terms.instance_id IS 'The leader.';
COMMENT ON COLUMN leader_terms.hostname IS 'Its host.';
COMMENT ON COLUMN leader_terms.pid IS 'Its process id.';
COMMENT ON COLUMN leader_terms.started_at IS 'Start of the term, by the database clock.';
COMMENT ON COLUMN leader_terms.lease_ms IS
    'Length of the lease that each heartbeat of the leader renewed; NULL if unknown.';
COMMENT ON COLUMN leader_terms.lease_expired_at IS
    'When the lease expired, if it did before the end of the term. No scheduler led from then on.';
COMMENT ON COLUMN leader_terms.ended_at IS 'Resignation or replacement; NULL for the current term.';
COMMENT ON COLUMN leader_terms.end_reason IS
    'The leader resigned, its lease expired, or an operator requested the step-down.';

CREATE TABLE worker_registration (
    worker_id          uuid        NOT NULL,
    hostname           text        NOT NULL,
    platform           text        NOT NULL,
    process_id         integer     NOT NULL,
    version            text        NOT NULL,
    queues             text[]      NOT NULL,
    concurrency        integer     NOT NULL,
    lease_ms           integer     NOT NULL,
    status             text        NOT NULL DEFAULT 'IDLE',
    running            integer     NOT NULL DEFAULT 0,
    jobs_processed     bigint      NOT NULL DEFAULT 0,
    started_at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    last_heartbeat     timestamptz NOT NULL DEFAULT clock_timestamp(),
    offline_since      timestamptz,
    drain_requested_at timestamptz,
    CONSTRAINT worker_registration_pkey PRIMARY KEY (worker_id),
    CONSTRAINT worker_registration_process_id_check CHECK (process_id > 0),
    CONSTRAINT worker_registration_concurrency_check CHECK (concurrency > 0),
    CONSTRAINT worker_registration_lease_ms_check CHECK (lease_ms > 0),
    CONSTRAINT worker_registration_queues_check CHECK (cardinality(queues) > 0),
    CONSTRAINT worker_registration_status_check
        CHECK (status IN ('IDLE', 'BUSY', 'DRAINING', 'OFFLINE')),
    CONSTRAINT worker_registration_running_check CHECK (running >= 0),
    CONSTRAINT worker_registration_jobs_processed_check CHECK (jobs_processed >= 0),
    CONSTRAINT worker_registration_offline_has_instant_check
        CHECK ((status = 'OFFLINE') = (offline_since IS NOT NULL))
) WITH (
    fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200,
    autovacuum_vacuum_cost_delay = 0
);
COMMENT ON TABLE worker_registration IS
    'Worker processes and their leases. The lease is this one row, not one row per run.';
COMMENT ON COLUMN worker_registration.worker_id IS 'Random identity, created at process start.';
COMMENT ON COLUMN worker_registration.hostname IS 'Host; a label only.';
COMMENT ON COLUMN worker_registration.platform IS 'Operating system and architecture.';
COMMENT ON COLUMN worker_registration.process_id IS 'Process id on that host; a label only.';
COMMENT ON COLUMN worker_registration.version IS 'Version of the program.';
COMMENT ON COLUMN worker_registration.queues IS 'Queues it serves.';
COMMENT ON COLUMN worker_registration.concurrency IS 'Maximum number of concurrent attempts.';
COMMENT ON COLUMN worker_registration.lease_ms IS
    'Time in milliseconds without a renewal before which the leader does not give the worker up, '
    'with any settings. Longer while the worker runs nothing; a claim makes it ordinary again.';
COMMENT ON COLUMN worker_registration.status IS
    'IDLE, BUSY, DRAINING (takes no new work) or OFFLINE (lease expired; its work was reassigned).';
COMMENT ON COLUMN worker_registration.running IS
    'Number of running attempts at the last heartbeat.';
COMMENT ON COLUMN worker_registration.jobs_processed IS
    'Number of finished attempts at the last heartbeat.';
COMMENT ON COLUMN worker_registration.started_at IS 'Registration time, by the database clock.';
COMMENT ON COLUMN worker_registration.last_heartbeat IS
    'Last heartbeat, by the database clock. Not indexed, so that the update stays in its page.';
COMMENT ON COLUMN worker_registration.offline_since IS
    'Time the leader found the lease expired; NULL unless OFFLINE.';
COMMENT ON COLUMN worker_registration.drain_requested_at IS
    'Time of an operator''s drain request; NULL otherwise.';

CREATE TABLE worker_claims (
    id            bigint      NOT NULL GENERATED ALWAYS AS IDENTITY,
    worker_id     uuid        NOT NULL,
    claimed_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    dispatch_ids  uuid[]      NOT NULL,
    limit_seconds integer[],
    CONSTRAINT worker_claims_pkey PRIMARY KEY (id),
    CONSTRAINT worker_claims_worker_fkey FOREIGN KEY (worker_id)
        REFERENCES worker_registration (worker_id),
    CONSTRAINT worker_claims_dispatch_ids_check CHECK (cardinality(dispatch_ids) > 0),
    CONSTRAINT worker_claims_limit_seconds_check
        CHECK (cardinality(limit_seconds) = cardinality(dispatch_ids))
) WITH (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX worker_claims_worker_id_idx ON worker_claims (worker_id);
COMMENT ON TABLE worker_claims IS
    'Runs taken by each claim statement. Every running run is listed; some listed runs have '
    'finished. Deleted when all have.';
COMMENT ON COLUMN worker_claims.id IS 'Identifier.';
COMMENT ON COLUMN worker_claims.worker_id IS
    'The worker. It cannot be unregistered while it has claims.';
COMMENT ON COLUMN worker_claims.claimed_at IS 'Time of the claim, by the database clock.';
COMMENT ON COLUMN worker_claims.dispatch_ids IS 'Claimed runs.';
COMMENT ON COLUMN worker_claims.limit_seconds IS
    'Maximum duration of each run at claim time, including the grace period, in seconds, in the '
    'same order. Later changes of job or function do not apply. NULL if a worker of an older '
    'release claimed them.';

-- History shows the host of an attempt after the registration is gone. A trigger keeps this table,
-- so that it does not depend on the release of the program that registers or removes a worker.
CREATE TABLE known_workers (
    worker_id     uuid        NOT NULL,
    hostname      text        NOT NULL,
    registered_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    gone_at       timestamptz,
    CONSTRAINT known_workers_pkey PRIMARY KEY (worker_id)
);
COMMENT ON TABLE known_workers IS
    'Registered workers, and past ones as long as history is kept: the hosts of attempts.';
COMMENT ON COLUMN known_workers.worker_id IS 'Process identity, as in worker_registration.';
COMMENT ON COLUMN known_workers.hostname IS 'Host; a label only.';
COMMENT ON COLUMN known_workers.registered_at IS 'Registration time, by the database clock.';
COMMENT ON COLUMN known_workers.gone_at IS 'End of the registration; NULL while registered.';

CREATE FUNCTION note_known_worker() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO public.known_workers (worker_id, hostname)
        VALUES (NEW.worker_id, NEW.hostname) ON CONFLICT DO NOTHING;
    ELSE
        UPDATE public.known_workers SET gone_at = clock_timestamp()
        WHERE worker_id = OLD.worker_id;
    END IF;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION note_known_worker() IS
    'Keeps known_workers in step with worker_registration; heartbeats do not call it.';
CREATE TRIGGER worker_registration_known AFTER INSERT OR DELETE ON worker_registration
    FOR EACH ROW EXECUTE FUNCTION note_known_worker();

-- Stored, so that the leader reports the start and the end of the condition once, also after a
-- change of leader.
CREATE TABLE unserved_queues (
    queue      text        NOT NULL,
    since      timestamptz NOT NULL,
    noticed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT unserved_queues_pkey PRIMARY KEY (queue)
);
COMMENT ON TABLE unserved_queues IS
    'Queues with waiting runs and without a live worker, as last seen by the leader.';
COMMENT ON COLUMN unserved_queues.queue IS
    'Name of the queue; workers serve queues by name, for all tenants.';
COMMENT ON COLUMN unserved_queues.since IS
    'Time the oldest of its runs could have been claimed, at detection.';
COMMENT ON COLUMN unserved_queues.noticed_at IS 'Detection by the leader, by the database clock.';

-- The claim of a single run reads this one row in place of tenants, projects, functions and queues.
-- A transaction that pauses or limits sets the flag at its commit, and keeps the row locked until
-- then. The leader locks the row, and clears the flag in its next statement, which sees every such
-- transaction that had the lock before.
CREATE TABLE claim_restrictions (
    is_only       boolean NOT NULL DEFAULT true,
    is_restricted boolean NOT NULL DEFAULT false,
    CONSTRAINT claim_restrictions_pkey PRIMARY KEY (is_only),
    CONSTRAINT claim_restrictions_is_only_check CHECK (is_only)
);
COMMENT ON TABLE claim_restrictions IS
    'Whether a pause or a limit may keep runs from being claimed; one row.';
COMMENT ON COLUMN claim_restrictions.is_only IS 'Always true: there is one row.';
COMMENT ON COLUMN claim_restrictions.is_restricted IS
    'True while a tenant, project, function or queue is paused, or a queue or the running runs of a '
    'tenant have a limit. Set at once; cleared by the leader some seconds after the last of them.';
INSERT INTO claim_restrictions DEFAULT VALUES;

CREATE FUNCTION restrict_claims() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    -- Locked although the flag may be set, so that the leader waits for this commit.
    PERFORM FROM public.claim_restrictions FOR NO KEY UPDATE;
    UPDATE public.claim_restrictions SET is_restricted = true WHERE NOT is_restricted;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION restrict_claims() IS
    'Sets the flag of claim_restrictions, for any role that pauses or limits.';
REVOKE EXECUTE ON FUNCTION restrict_claims() FROM PUBLIC;
-- Deferred, so that the one row is locked during a commit only.
CREATE CONSTRAINT TRIGGER tenants_restrict_claims AFTER INSERT OR UPDATE OF is_paused, quotas
    ON tenants DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (NEW.is_paused OR NEW.quotas ? 'running_dispatches')
    EXECUTE FUNCTION restrict_claims();
CREATE CONSTRAINT TRIGGER projects_restrict_claims AFTER INSERT OR UPDATE OF is_paused
    ON projects DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (NEW.is_paused) EXECUTE FUNCTION restrict_claims();
CREATE CONSTRAINT TRIGGER task_functions_restrict_claims AFTER INSERT OR UPDATE OF is_paused
    ON task_functions DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (NEW.is_paused) EXECUTE FUNCTION restrict_claims();
CREATE CONSTRAINT TRIGGER queues_restrict_claims
    AFTER INSERT OR UPDATE OF is_paused, max_running, rate_limit_count
    ON queues DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (NEW.is_paused OR NEW.max_running IS NOT NULL OR NEW.rate_limit_count IS NOT NULL)
    EXECUTE FUNCTION restrict_claims();

-- The built-in jobs run on workers. They read the leader's retention settings here, so that they
-- delete exactly what the leader would delete. retained_at shows the leader that they do.
CREATE TABLE housekeeping (
    is_only                 boolean     NOT NULL DEFAULT true,
    finished_days           integer     NOT NULL,
    dead_letter_days        integer     NOT NULL,
    audit_days              integer     NOT NULL,
    idempotency_key_seconds bigint      NOT NULL,
    history_expiry          text        NOT NULL,
    stale_scheduler_seconds bigint      NOT NULL,
    stale_worker_seconds    bigint      NOT NULL,
    told_at                 timestamptz NOT NULL DEFAULT clock_timestamp(),
    retained_at             timestamptz,
    CONSTRAINT housekeeping_pkey PRIMARY KEY (is_only),
    CONSTRAINT housekeeping_is_only_check CHECK (is_only),
    CONSTRAINT housekeeping_days_check
        CHECK (finished_days > 0 AND dead_letter_days >= finished_days
            AND audit_days >= finished_days),
    CONSTRAINT housekeeping_seconds_check
        CHECK (idempotency_key_seconds > 0 AND stale_scheduler_seconds > 0
            AND stale_worker_seconds > 0),
    CONSTRAINT housekeeping_history_expiry_check CHECK (history_expiry IN ('drop', 'detach'))
);
COMMENT ON TABLE housekeeping IS
    'Retention settings of the leader, for the built-in jobs; one row, absent before the first '
    'leader.';
COMMENT ON COLUMN housekeeping.is_only IS 'Always true: there is one row.';
COMMENT ON COLUMN housekeeping.finished_days IS
    'Days to keep finished runs, skips, history and events.';
COMMENT ON COLUMN housekeeping.dead_letter_days IS 'Days to keep dead letters.';
COMMENT ON COLUMN housekeeping.audit_days IS
    'Days to keep the audit log and the terms of leadership.';
COMMENT ON COLUMN housekeeping.idempotency_key_seconds IS
    'Time to keep the idempotency keys of triggers, in seconds.';
COMMENT ON COLUMN housekeeping.history_expiry IS
    'Old months of history are dropped, or detached for an archiver.';
COMMENT ON COLUMN housekeeping.stale_scheduler_seconds IS
    'Silence after which a standby is removed from the list, in seconds.';
COMMENT ON COLUMN housekeeping.stale_worker_seconds IS
    'Time that a worker stays in the list after the leader gave it up, in seconds.';
COMMENT ON COLUMN housekeeping.told_at IS 'Last change by a leader, by the database clock.';
COMMENT ON COLUMN housekeeping.retained_at IS
    'Last time a built-in job deleted all expired rows, by the database clock. If NULL or long '
    'ago, the leader deletes them itself.';
