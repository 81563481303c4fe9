-- Who is alive: schedulers with their leadership, workers with their leases.

CREATE SEQUENCE leader_term_seq AS bigint;
COMMENT ON SEQUENCE leader_term_seq IS 'Terms of leadership. A sequence is logged: a term is never reused, across a crash either.';

CREATE TABLE scheduler_instances (
    id             uuid        NOT NULL,
    hostname       text        NOT NULL,
    pid            integer     NOT NULL,
    version        text        NOT NULL,
    started_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    last_heartbeat timestamptz NOT NULL DEFAULT clock_timestamp(),
    is_leader      boolean     NOT NULL DEFAULT false,
    leader_since   timestamptz,
    term           bigint,
    CONSTRAINT scheduler_instances_pkey PRIMARY KEY (id),
    CONSTRAINT scheduler_instances_pid_check CHECK (pid > 0),
    CONSTRAINT scheduler_instances_leader_has_term_check CHECK (is_leader = (leader_since IS NOT NULL) AND is_leader = (term IS NOT NULL))
) WITH (fillfactor = 50);
CREATE UNIQUE INDEX scheduler_instances_one_leader_key ON scheduler_instances (is_leader) WHERE is_leader;
COMMENT ON TABLE  scheduler_instances                IS 'Scheduler processes. At most one leads; the others stand by.';
COMMENT ON INDEX  scheduler_instances_one_leader_key IS 'Makes two leaders impossible.';
COMMENT ON COLUMN scheduler_instances.id             IS 'Random identity made when the process started; never derived from host or pid.';
COMMENT ON COLUMN scheduler_instances.hostname       IS 'Host, a label only.';
COMMENT ON COLUMN scheduler_instances.pid            IS 'Process id on that host, a label only.';
COMMENT ON COLUMN scheduler_instances.version        IS 'Version of the program.';
COMMENT ON COLUMN scheduler_instances.started_at     IS 'When the process registered, by the database clock.';
COMMENT ON COLUMN scheduler_instances.last_heartbeat IS 'When it last said it lives, by the database clock. Not indexed, so that a heartbeat stays in its page.';
COMMENT ON COLUMN scheduler_instances.is_leader      IS 'True for the one that dispatches.';
COMMENT ON COLUMN scheduler_instances.leader_since   IS 'When its term began; NULL unless leader.';
COMMENT ON COLUMN scheduler_instances.term           IS 'Its term; fences every write it makes as leader. NULL unless leader.';

CREATE TABLE leader_terms (
    term       bigint      NOT NULL,
    instance_id uuid       NOT NULL,
    hostname   text        NOT NULL,
    pid        integer     NOT NULL,
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at   timestamptz,
    end_reason text,
    CONSTRAINT leader_terms_pkey PRIMARY KEY (term),
    CONSTRAINT leader_terms_end_reason_check CHECK (end_reason IN ('resigned', 'expired', 'stepped_down')),
    CONSTRAINT leader_terms_ended_has_reason_check CHECK ((ended_at IS NULL) = (end_reason IS NULL)),
    CONSTRAINT leader_terms_ended_after_started_check CHECK (ended_at >= started_at)
);
COMMENT ON TABLE  leader_terms             IS 'Every term of leadership there has been.';
COMMENT ON COLUMN leader_terms.term        IS 'Grows with every change of leader.';
COMMENT ON COLUMN leader_terms.instance_id IS 'The scheduler that led.';
COMMENT ON COLUMN leader_terms.hostname    IS 'Its host.';
COMMENT ON COLUMN leader_terms.pid         IS 'Its process id.';
COMMENT ON COLUMN leader_terms.started_at  IS 'When it took over, by the database clock.';
COMMENT ON COLUMN leader_terms.ended_at    IS 'When it resigned or was replaced; NULL for the present leader.';
COMMENT ON COLUMN leader_terms.end_reason  IS 'How the term ended: it resigned, its lease expired, or an operator asked it to step down.';

CREATE TABLE worker_registration (
    worker_id      uuid        NOT NULL,
    hostname       text        NOT NULL,
    platform       text        NOT NULL,
    process_id     integer     NOT NULL,
    version        text        NOT NULL,
    queues         text[]      NOT NULL,
    concurrency    integer     NOT NULL,
    lease_ms       integer     NOT NULL,
    status         text        NOT NULL DEFAULT 'IDLE',
    running        integer     NOT NULL DEFAULT 0,
    jobs_processed bigint      NOT NULL DEFAULT 0,
    started_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    last_heartbeat timestamptz NOT NULL DEFAULT clock_timestamp(),
    offline_since  timestamptz,
    drain_requested_at timestamptz,
    CONSTRAINT worker_registration_pkey PRIMARY KEY (worker_id),
    CONSTRAINT worker_registration_process_id_check CHECK (process_id > 0),
    CONSTRAINT worker_registration_concurrency_check CHECK (concurrency > 0),
    CONSTRAINT worker_registration_lease_ms_check CHECK (lease_ms > 0),
    CONSTRAINT worker_registration_queues_check CHECK (cardinality(queues) > 0),
    CONSTRAINT worker_registration_status_check CHECK (status IN ('IDLE', 'BUSY', 'DRAINING', 'OFFLINE')),
    CONSTRAINT worker_registration_running_check CHECK (running >= 0),
    CONSTRAINT worker_registration_jobs_processed_check CHECK (jobs_processed >= 0),
    CONSTRAINT worker_registration_offline_has_instant_check CHECK ((status = 'OFFLINE') = (offline_since IS NOT NULL))
) WITH (fillfactor = 50);
COMMENT ON TABLE  worker_registration                IS 'Worker processes and their leases: a worker is alive by this one row, not by one row per dispatch.';
COMMENT ON COLUMN worker_registration.worker_id      IS 'Random identity made when the process started.';
COMMENT ON COLUMN worker_registration.hostname       IS 'Host, a label only.';
COMMENT ON COLUMN worker_registration.platform       IS 'Operating system and architecture.';
COMMENT ON COLUMN worker_registration.process_id     IS 'Process id on that host, a label only.';
COMMENT ON COLUMN worker_registration.version        IS 'Version of the program.';
COMMENT ON COLUMN worker_registration.queues         IS 'Queues it serves.';
COMMENT ON COLUMN worker_registration.concurrency    IS 'How many dispatches it runs at once.';
COMMENT ON COLUMN worker_registration.lease_ms       IS 'How long the worker trusts itself without a heartbeat, in milliseconds: it is not given up earlier, whatever the scheduler is set to.';
COMMENT ON COLUMN worker_registration.status         IS 'IDLE, BUSY, DRAINING (takes no new work) or OFFLINE (lease expired; its work was given to others).';
COMMENT ON COLUMN worker_registration.running        IS 'How many dispatches it ran at the last heartbeat.';
COMMENT ON COLUMN worker_registration.jobs_processed IS 'How many attempts it has finished, as of the last heartbeat.';
COMMENT ON COLUMN worker_registration.started_at     IS 'When the process registered, by the database clock.';
COMMENT ON COLUMN worker_registration.last_heartbeat IS 'When it last said it lives, by the database clock. Not indexed, so that a heartbeat stays in its page.';
COMMENT ON COLUMN worker_registration.offline_since  IS 'When its lease was found expired; NULL unless OFFLINE.';
COMMENT ON COLUMN worker_registration.drain_requested_at IS 'When an operator asked it to take no new work; NULL otherwise.';
