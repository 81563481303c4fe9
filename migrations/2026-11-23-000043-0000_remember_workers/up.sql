-- Workers by the names that people know them by, for as long as history tells of them: a registration ends with its process, and history would be
-- left with an id that nobody knows. By a trigger, so that it does not matter of which release the program is that registers or removes one.
CREATE TABLE known_workers (
    worker_id     uuid        NOT NULL,
    hostname      text        NOT NULL,
    registered_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    gone_at       timestamptz,
    CONSTRAINT known_workers_pkey PRIMARY KEY (worker_id)
);
COMMENT ON TABLE  known_workers               IS 'Workers that are registered, or were for as long as history is kept: what their attempts are told to have run on.';
COMMENT ON COLUMN known_workers.worker_id     IS 'Identity of the process, as in worker_registration.';
COMMENT ON COLUMN known_workers.hostname      IS 'Host, a label only.';
COMMENT ON COLUMN known_workers.registered_at IS 'When it registered, by the database clock.';
COMMENT ON COLUMN known_workers.gone_at       IS 'When its registration ended; NULL while it is registered.';

CREATE FUNCTION note_known_worker() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO public.known_workers (worker_id, hostname) VALUES (NEW.worker_id, NEW.hostname) ON CONFLICT DO NOTHING;
    ELSE
        UPDATE public.known_workers SET gone_at = clock_timestamp() WHERE worker_id = OLD.worker_id;
    END IF;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION note_known_worker() IS 'Keeps known_workers in step with worker_registration; heartbeats do not call it.';

CREATE TRIGGER worker_registration_known AFTER INSERT OR DELETE ON worker_registration
    FOR EACH ROW EXECUTE FUNCTION note_known_worker();
INSERT INTO known_workers (worker_id, hostname, registered_at) SELECT worker_id, hostname, started_at FROM worker_registration;

SELECT isolate_tenants('known_workers');
CREATE POLICY shared ON known_workers FOR SELECT TO sched_api USING (true);
GRANT SELECT ON known_workers TO sched_api;
