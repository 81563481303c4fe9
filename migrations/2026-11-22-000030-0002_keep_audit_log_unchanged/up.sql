-- The audit log is appended to and nothing else: entries are never changed, and go when they are as old as retention says and no
-- earlier. Triggers hold its owner to it as well, whom grants do not.
CREATE FUNCTION audit_log_kept_from() RETURNS timestamptz
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$ SELECT now() - make_interval(days => coalesce((SELECT h.audit_days FROM public.housekeeping h), 1)) $$;
COMMENT ON FUNCTION audit_log_kept_from() IS 'Entries of the audit log from here on may not go: as many days as retention says, one while nobody has said.';
REVOKE EXECUTE ON FUNCTION audit_log_kept_from() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION audit_log_kept_from() TO sched_daemon;

CREATE FUNCTION refuse_audit_log_change() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    IF TG_OP = 'DELETE' AND OLD.created_at < public.audit_log_kept_from() THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION 'the audit log is only appended to: % refused', TG_OP USING ERRCODE = 'insufficient_privilege';
END
$$;
COMMENT ON FUNCTION refuse_audit_log_change() IS 'Refuses every change of the audit log but the removal of what is old.';

CREATE TRIGGER audit_log_append_only BEFORE UPDATE OR DELETE ON audit_log
    FOR EACH ROW EXECUTE FUNCTION refuse_audit_log_change();
CREATE TRIGGER audit_log_no_truncate BEFORE TRUNCATE ON audit_log
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_audit_log_change();
COMMENT ON TABLE audit_log IS 'Who changed what. Written in the transaction of the change; never updated, and removed by age alone.';

-- Pages by who did it and by what it was done to, newest first.
CREATE INDEX audit_log_actor_idx ON audit_log (tenant_id, actor, id);
CREATE INDEX audit_log_target_idx ON audit_log (tenant_id, target_id, id);
