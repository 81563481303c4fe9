//! What the tables alone do not tell afterwards, written down as it happens: every state that a dispatch enters, and when the
//! transaction of each scheduled dispatch was about to commit. Beside that, which jobs have had the same settings all the time: rules about
//! policies speak about these.
//!
//! Triggers in the test's database write it, in a schema of their own and as its owner, whichever role the program has that sets them off; no
//! program knows of them.

use test_support::Client;

const TRIGGERS: &str = "
    CREATE SCHEMA witness;
    CREATE TABLE witness.transitions (
        id bigint GENERATED ALWAYS AS IDENTITY, dispatch_id uuid, was text, became text, at timestamptz DEFAULT clock_timestamp());
    CREATE FUNCTION witness.note_transition() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
    BEGIN
        INSERT INTO witness.transitions (dispatch_id, was, became)
        VALUES (NEW.id, CASE WHEN TG_OP = 'UPDATE' THEN OLD.status ELSE 'new' END, NEW.status);
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
