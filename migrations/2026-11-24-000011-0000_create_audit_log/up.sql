-- The audit log, and stored responses for idempotency keys.

CREATE TABLE audit_log (
    id          bigint      NOT NULL GENERATED ALWAYS AS IDENTITY,
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    tenant_id   uuid,
    actor       text        NOT NULL,
    action      text        NOT NULL,
    target_type text        NOT NULL,
    target_id   text        NOT NULL,
    before      jsonb,
    after       jsonb,
    request_id  text,
    address     text,
    CONSTRAINT audit_log_pkey PRIMARY KEY (id),
    CONSTRAINT audit_log_action_check CHECK (action ~ '^[a-z]+(_[a-z]+)*$')
);
CREATE INDEX audit_log_tenant_id_idx ON audit_log (tenant_id, id);
CREATE INDEX audit_log_actor_idx ON audit_log (tenant_id, actor, id);
CREATE INDEX audit_log_target_idx ON audit_log (tenant_id, target_id, id);
COMMENT ON TABLE audit_log IS
    'Audit events, written in the transaction of the change. Never updated; deleted by age only.';
COMMENT ON COLUMN audit_log.id IS 'Identifier.';
COMMENT ON COLUMN audit_log.created_at IS 'Time of the change, by the database clock.';
COMMENT ON COLUMN audit_log.tenant_id IS 'Tenant of the change; NULL for the installation.';
COMMENT ON COLUMN audit_log.actor IS
    'E-mail address, key prefix or component that made the change.';
COMMENT ON COLUMN audit_log.action IS 'Action.';
COMMENT ON COLUMN audit_log.target_type IS 'Kind of the changed resource.';
COMMENT ON COLUMN audit_log.target_id IS 'Identifier of the changed resource.';
COMMENT ON COLUMN audit_log.before IS
    'Resource before the change, without secrets; NULL if it was created.';
COMMENT ON COLUMN audit_log.after IS
    'Resource after the change, without secrets; NULL if it was removed.';
COMMENT ON COLUMN audit_log.request_id IS 'Request that caused it, as in the logs.';
COMMENT ON COLUMN audit_log.address IS
    'Client address of the request, as reported by trusted proxies; NULL if no request caused '
    'the change.';

-- Triggers enforce append-only for the owner of the table too; grants do not restrict an owner.
-- Rows are deleted when they are older than the retention period, not earlier.
CREATE FUNCTION audit_log_kept_from() RETURNS timestamptz
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
        SELECT now() - make_interval(
            days => coalesce((SELECT h.audit_days FROM public.housekeeping h), 1))
    $$;
COMMENT ON FUNCTION audit_log_kept_from() IS
    'Audit events from this time on cannot be deleted: the retention period, or one day before the '
    'first leader.';
REVOKE EXECUTE ON FUNCTION audit_log_kept_from() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION audit_log_kept_from() TO sched_daemon, sched_worker;

CREATE FUNCTION refuse_audit_log_change() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    IF TG_OP = 'DELETE' AND OLD.created_at < public.audit_log_kept_from() THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION 'the audit log is only appended to: % refused', TG_OP
        USING ERRCODE = 'insufficient_privilege';
END
$$;
COMMENT ON FUNCTION refuse_audit_log_change() IS
    'Rejects every change of the audit log except the deletion of expired rows.';
CREATE TRIGGER audit_log_append_only BEFORE UPDATE OR DELETE ON audit_log
    FOR EACH ROW EXECUTE FUNCTION refuse_audit_log_change();
CREATE TRIGGER audit_log_no_truncate BEFORE TRUNCATE ON audit_log
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_audit_log_change();

-- A response is stored in the transaction of its change, so that either both exist or neither. The
-- key of a trigger is stored with its run instead (job_dispatch.idempotency_key). Rows are inserted
-- once and deleted by age in small batches, so vacuum is set by their number.
CREATE TABLE kept_answers (
    tenant_id   uuid        NOT NULL,
    caller      text        NOT NULL,
    key         text        NOT NULL,
    fingerprint bytea       NOT NULL,
    status      smallint    NOT NULL,
    location    text,
    etag        text,
    body        text,
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT kept_answers_pkey PRIMARY KEY (tenant_id, caller, key),
    CONSTRAINT kept_answers_tenant_fkey FOREIGN KEY (tenant_id)
        REFERENCES tenants (id) ON DELETE CASCADE,
    CONSTRAINT kept_answers_key_check CHECK (key ~ '^[!-~]{1,200}$'),
    CONSTRAINT kept_answers_fingerprint_check CHECK (length(fingerprint) = 32),
    -- Only successful responses are kept: the client may repeat a rejected request.
    CONSTRAINT kept_answers_status_check CHECK (status BETWEEN 200 AND 299)
) WITH (
    autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0
);
CREATE INDEX kept_answers_created_at_idx ON kept_answers (created_at);
COMMENT ON TABLE kept_answers IS
    'Responses to requests with an Idempotency-Key, returned again for a repeated request. No '
    'secrets: requests about those accept no key.';
COMMENT ON INDEX kept_answers_created_at_idx IS 'Rows to delete by age.';
COMMENT ON COLUMN kept_answers.tenant_id IS 'Tenant of the request.';
COMMENT ON COLUMN kept_answers.caller IS
    'Prefix of the API key, or e-mail address of the token. Keys of different callers are '
    'independent.';
COMMENT ON COLUMN kept_answers.key IS 'Idempotency-Key of the client.';
COMMENT ON COLUMN kept_answers.fingerprint IS
    'SHA-256 of method, path, parameters and body; detects another request with the same key.';
COMMENT ON COLUMN kept_answers.status IS 'Status code of the response.';
COMMENT ON COLUMN kept_answers.location IS 'Location header; NULL without one.';
COMMENT ON COLUMN kept_answers.etag IS 'ETag header, with quotes; NULL without one.';
COMMENT ON COLUMN kept_answers.body IS 'Response body, JSON as sent; NULL without one.';
COMMENT ON COLUMN kept_answers.created_at IS
    'First response, by the database clock; decides the expiry.';
