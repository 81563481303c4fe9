//! The witness: triggers that record facts that the tables do not keep. These are every state of a
//! dispatch, the commit time of scheduled dispatches, whether a claim named its dispatches, the
//! process of each worker, the count of each batch of ends, and every switch of a job. For every
//! skip, the witness records the open dispatches and policies of its job right before the commit. It
//! also knows the jobs with constant settings, which rules about policies cover.
//!
//! A transaction that decides about a skip locks the row of the job, as does every transaction that
//! opens, ends or switches something of that job. So at the commit, the witness sees the state of
//! the decision and the changes of the transaction itself. Earlier switches have smaller numbers.
//!
//! The triggers write to a separate schema as its owner, with any role of the program that sets
//! them off.

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
    -- Deferred: the trigger runs when the transaction commits, with its locks still held.
    CREATE CONSTRAINT TRIGGER witness_commit AFTER INSERT ON job_dispatch DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW WHEN (NEW.term IS NOT NULL) EXECUTE FUNCTION witness.note_commit();

    -- Whether a claim of the worker named the dispatch when the transaction committed. Running
    -- dispatches are found by their claim.
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

    -- The process of every worker. A registration is removed when its worker has lost its lease and
    -- registers again.
    CREATE TABLE witness.workers (worker_id uuid PRIMARY KEY, process_id integer);
    CREATE FUNCTION witness.note_worker() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
    BEGIN
        INSERT INTO witness.workers VALUES (NEW.worker_id, NEW.process_id) ON CONFLICT DO NOTHING;
        RETURN NULL;
    END $$;
    CREATE TRIGGER witness_worker AFTER INSERT ON worker_registration FOR EACH ROW EXECUTE FUNCTION witness.note_worker();
    INSERT INTO witness.workers SELECT worker_id, process_id FROM worker_registration;

    -- The count of each batch of ends, with the program that counted it.
    CREATE TABLE witness.counts (batch_id bigint, created_at timestamptz, program text, at timestamptz DEFAULT clock_timestamp());
    CREATE FUNCTION witness.note_count() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
    BEGIN
        INSERT INTO witness.counts (batch_id, created_at, program) VALUES (OLD.batch_id, OLD.created_at, current_setting('application_name'));
        RETURN NULL;
    END $$;
    CREATE TRIGGER witness_count AFTER DELETE ON uncounted_ends FOR EACH ROW EXECUTE FUNCTION witness.note_count();

    -- The switches of jobs, in their order.
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

    -- Whether a version of a row may have been committed after this transaction began. An earlier
    -- write may have waited for its COMMIT for seconds, and a commit becomes visible shortly after
    -- its timestamp.
    CREATE FUNCTION witness.may_be_new(version xid, written_at timestamptz) RETURNS boolean LANGUAGE plpgsql AS $$
    BEGIN
        RETURN coalesce(CASE WHEN current_setting('track_commit_timestamp')::boolean THEN pg_xact_commit_timestamp(version) END, written_at)
               >= now() - interval '1 second';
    END $$;
    -- A row for the part that each statement adds to a record: a range that continues is extended.
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
               -- A range that continues keeps the term of its begin.
               CASE WHEN TG_OP = 'INSERT' THEN NEW.term END, clock_timestamp(), pg_current_xact_id(), (SELECT max(s.id) FROM witness.switches s WHERE s.job_id = j.id),
               open.before, open.now, j.max_instances, j.overlap_policy, j.misfire_policy, make_interval(secs => coalesce(j.misfire_grace_seconds, 60)),
               j.calendars, j.timezone, j.fired_count >= j.max_runs OR j.end_at <= NEW.last_fire_at, (t.quotas->>'dispatches_per_minute')::bigint,
               -- Switches of these do not wait for jobs: if one changed during the transaction,
               -- both states are possible.
               t.is_paused OR witness.may_be_new(t.xmin, t.updated_at), coalesce(p.is_paused OR witness.may_be_new(p.xmin, p.updated_at), false),
               coalesce(q.is_paused OR witness.may_be_new(q.xmin, q.updated_at), false), f.is_paused OR witness.may_be_new(f.xmin, f.updated_at),
               f.is_active AND NOT witness.may_be_new(f.xmin, f.updated_at)
        FROM scheduled_jobs j JOIN tenants t ON t.id = j.tenant_id
        JOIN task_functions f ON f.tenant_id = j.tenant_id AND f.id = j.task_function_id
        LEFT JOIN queues q ON q.tenant_id = j.tenant_id AND q.name = coalesce(j.queue, f.queue)
        LEFT JOIN projects p ON p.tenant_id = j.tenant_id AND p.id = j.project_id
        CROSS JOIN LATERAL (
            SELECT count(*) AS now, count(*) FILTER (WHERE d.created_at < now() OR d.xmin <> pg_current_xact_id()::xid) AS before
            FROM job_dispatch d
            -- An end locks no job, so a run counts as open until its end is counted. A count locks the job,
            -- which the tick holds until its commit: an end that is not counted now was not counted for the tick.
            WHERE d.job_id = j.id AND (d.completed_at IS NULL OR d.id = ANY (ARRAY(
                SELECT unnest(b.dispatch_ids) FROM uncounted_ends u
                JOIN run_end_batches b ON b.transaction_id = u.transaction_id AND b.id = u.batch_id AND b.created_at = u.created_at)))) open
        WHERE j.id = NEW.job_id AND (TG_OP = 'INSERT' OR NEW.last_fire_at > OLD.last_fire_at);
        RETURN NULL;
    END $$;
    -- Deferred: all dispatches of the transaction exist, in whatever order it writes.
    CREATE CONSTRAINT TRIGGER witness_skip AFTER INSERT OR UPDATE ON skipped_fires DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW EXECUTE FUNCTION witness.note_skip();

    -- A pause does not change a setting.
    CREATE VIEW witness.unchanged_jobs AS
    SELECT job_id FROM scheduled_job_versions GROUP BY job_id HAVING count(DISTINCT settings) = 1;";

/// # Panics
/// When the triggers cannot be created.
pub async fn install(sql: &Client) {
    sql.batch_execute(TRIGGERS)
        .await
        .unwrap_or_else(|error| panic!("the witness cannot be installed: {error:?}"));
}
