//! What the tables alone do not tell afterwards, written down as it happens: every state that a dispatch enters, when the
//! transaction of each scheduled dispatch was about to commit, whether a claim named what it took, which process a worker was, what every job was switched to, and, for every skip, what was open of its job and what
//! its policies were when the transaction that decided it was about to commit. Beside that, which jobs have had the same settings all the time: rules
//! about policies speak about these.
//!
//! What decides about a skip has the row of its job locked, and so has whoever opens, ends or switches something of that job: what a skip sees when it
//! commits is what its decision saw, and what the transaction itself did. Switches before it have a smaller number.
//!
//! Triggers in the test's database write it, in a schema of their own and as its owner, whichever role the program has that sets them off; no
//! program knows of them.

use test_support::Client;

const TRIGGERS: &str = "
    CREATE SCHEMA witness;
    CREATE TABLE witness.transitions (
        id bigint GENERATED ALWAYS AS IDENTITY, dispatch_id uuid, was text, became text, worker_id uuid,
        at timestamptz DEFAULT clock_timestamp());
    CREATE FUNCTION witness.note_transition() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
    BEGIN
        INSERT INTO witness.transitions (dispatch_id, was, became, worker_id)
        VALUES (NEW.id, CASE WHEN TG_OP = 'UPDATE' THEN OLD.status ELSE 'new' END, NEW.status, NEW.worker_id);
        RETURN NULL;
    END $$;
    CREATE TRIGGER witness_transition AFTER INSERT OR UPDATE OF status ON job_dispatch
        FOR EACH ROW EXECUTE FUNCTION witness.note_transition();

    CREATE TABLE witness.commits (dispatch_id uuid, term bigint, at timestamptz DEFAULT clock_timestamp());
    CREATE FUNCTION witness.note_commit() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
    BEGIN
        INSERT INTO witness.commits (dispatch_id, term) VALUES (NEW.id, NEW.term);
        RETURN NULL;
    END $$;
    -- Deferred: it runs when the transaction commits, with its locks still held.
    CREATE CONSTRAINT TRIGGER witness_commit AFTER INSERT ON job_dispatch DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW WHEN (NEW.term IS NOT NULL) EXECUTE FUNCTION witness.note_commit();

    -- Whether a claim of its worker named what a claim has taken when that was committed: the dispatches that run are found by it.
    CREATE TABLE witness.claims (dispatch_id uuid, attempt integer, worker_id uuid, is_named boolean, at timestamptz DEFAULT clock_timestamp());
    CREATE FUNCTION witness.note_claim() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
    BEGIN
        INSERT INTO witness.claims (dispatch_id, attempt, worker_id, is_named)
        SELECT NEW.id, NEW.attempt, NEW.worker_id,
               EXISTS (SELECT FROM worker_claims c WHERE c.worker_id = NEW.worker_id AND NEW.id = ANY (c.dispatch_ids));
        RETURN NULL;
    END $$;
    CREATE CONSTRAINT TRIGGER witness_claim AFTER UPDATE OF status ON job_dispatch DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW WHEN (NEW.status = 'IN_PROGRESS' AND OLD.status <> 'IN_PROGRESS') EXECUTE FUNCTION witness.note_claim();

    -- Which process every worker was: a registration goes when its worker has lost its lease and registers anew.
    CREATE TABLE witness.workers (worker_id uuid PRIMARY KEY, process_id integer);
    CREATE FUNCTION witness.note_worker() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
    BEGIN
        INSERT INTO witness.workers VALUES (NEW.worker_id, NEW.process_id) ON CONFLICT DO NOTHING;
        RETURN NULL;
    END $$;
    CREATE TRIGGER witness_worker AFTER INSERT ON worker_registration FOR EACH ROW EXECUTE FUNCTION witness.note_worker();
    INSERT INTO witness.workers SELECT worker_id, process_id FROM worker_registration;

    -- What jobs were switched to, in the order in which it was done.
    CREATE TABLE witness.switches (
        id bigint GENERATED ALWAYS AS IDENTITY, job_id uuid, transaction_id xid8 DEFAULT pg_current_xact_id(), at timestamptz DEFAULT clock_timestamp(),
        is_paused boolean, paused_until timestamptz, is_enabled boolean, version bigint);
    CREATE INDEX ON witness.switches (job_id, id);
    CREATE FUNCTION witness.note_switch() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
    BEGIN
        INSERT INTO witness.switches (job_id, is_paused, paused_until, is_enabled, version)
        VALUES (NEW.id, NEW.is_paused, NEW.paused_until, NEW.is_enabled AND NEW.deleted_at IS NULL, NEW.version);
        RETURN NULL;
    END $$;
    CREATE TRIGGER witness_first_switch AFTER INSERT ON scheduled_jobs FOR EACH ROW EXECUTE FUNCTION witness.note_switch();
    CREATE TRIGGER witness_switch AFTER UPDATE ON scheduled_jobs
        FOR EACH ROW WHEN ((OLD.is_paused, OLD.paused_until, OLD.is_enabled, OLD.deleted_at, OLD.version)
                           IS DISTINCT FROM (NEW.is_paused, NEW.paused_until, NEW.is_enabled, NEW.deleted_at, NEW.version))
        EXECUTE FUNCTION witness.note_switch();
    INSERT INTO witness.switches (job_id, is_paused, paused_until, is_enabled, version)
    SELECT id, is_paused, paused_until, is_enabled AND deleted_at IS NULL, version FROM scheduled_jobs;

    -- Whether a version of a row may have been committed after this transaction began: what was written before may have waited for its COMMIT for seconds,
    -- and a commit is seen by others a moment after the instant that it is given.
    CREATE FUNCTION witness.may_be_new(version xid, written_at timestamptz) RETURNS boolean LANGUAGE plpgsql AS $$
    BEGIN
        RETURN coalesce(CASE WHEN current_setting('track_commit_timestamp')::boolean THEN pg_xact_commit_timestamp(version) END, written_at)
               >= now() - interval '1 second';
    END $$;
    -- A row for what each statement adds to a record: a range that goes on is extended.
    CREATE TABLE witness.skips (
        skip_id bigint, job_id uuid, trigger_id uuid, first_fire_at timestamptz, last_fire_at timestamptz, reason text, term bigint,
        at timestamptz DEFAULT clock_timestamp(), transaction_id xid8 DEFAULT pg_current_xact_id(), last_switch bigint,
        open_before bigint, open_now bigint, max_instances integer, overlap_policy text, misfire_policy text, grace interval,
        calendars text[], timezone text, may_have_ended boolean, quota bigint, is_tenant_paused boolean, is_project_paused boolean,
        is_queue_paused boolean, is_function_paused boolean, is_function_active boolean);
    CREATE INDEX ON witness.skips (job_id, first_fire_at);
    CREATE FUNCTION witness.note_skip() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
    BEGIN
        INSERT INTO witness.skips
        SELECT NEW.id, j.id, NEW.trigger_id, CASE WHEN TG_OP = 'UPDATE' THEN OLD.last_fire_at ELSE NEW.first_fire_at END, NEW.last_fire_at, NEW.reason,
               -- A range that goes on keeps the term of whoever began it.
               CASE WHEN TG_OP = 'INSERT' THEN NEW.term END, clock_timestamp(), pg_current_xact_id(), (SELECT max(s.id) FROM witness.switches s WHERE s.job_id = j.id),
               open.before, open.now, j.max_instances, j.overlap_policy, j.misfire_policy, make_interval(secs => coalesce(j.misfire_grace_seconds, 60)),
               j.calendars, j.timezone, j.fired_count >= j.max_runs OR j.end_at <= NEW.last_fire_at, (t.quotas->>'dispatches_per_minute')::bigint,
               -- Switches of these do not wait for jobs: one that was changed while the transaction went on may have been either.
               t.is_paused OR witness.may_be_new(t.xmin, t.updated_at), coalesce(p.is_paused OR witness.may_be_new(p.xmin, p.updated_at), false),
               coalesce(q.is_paused OR witness.may_be_new(q.xmin, q.updated_at), false), f.is_paused OR witness.may_be_new(f.xmin, f.updated_at),
               f.is_active AND NOT witness.may_be_new(f.xmin, f.updated_at)
        FROM scheduled_jobs j JOIN tenants t ON t.id = j.tenant_id
        JOIN task_functions f ON f.tenant_id = j.tenant_id AND f.id = j.task_function_id
        LEFT JOIN queues q ON q.tenant_id = j.tenant_id AND q.name = coalesce(j.queue, f.queue)
        LEFT JOIN projects p ON p.tenant_id = j.tenant_id AND p.id = j.project_id
        CROSS JOIN LATERAL (
            SELECT count(*) AS now, count(*) FILTER (WHERE d.created_at < now() OR d.xmin <> pg_current_xact_id()::xid) AS before
            FROM job_dispatch d WHERE d.job_id = j.id AND d.completed_at IS NULL) open
        WHERE j.id = NEW.job_id AND (TG_OP = 'INSERT' OR NEW.last_fire_at > OLD.last_fire_at);
        RETURN NULL;
    END $$;
    -- Deferred: what the transaction dispatches besides is there, whatever it writes first.
    CREATE CONSTRAINT TRIGGER witness_skip AFTER INSERT OR UPDATE ON skipped_fires DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW EXECUTE FUNCTION witness.note_skip();

    -- What a pause changes is no setting.
    CREATE VIEW witness.unchanged_jobs AS
    SELECT job_id FROM scheduled_job_versions GROUP BY job_id HAVING count(DISTINCT settings) = 1;";

/// Begins to write down what the tables alone do not tell afterwards.
///
/// # Panics
/// When the triggers cannot be made.
pub async fn install(sql: &Client) {
    sql.batch_execute(TRIGGERS)
        .await
        .unwrap_or_else(|error| panic!("the witness cannot be installed: {error:?}"));
}
