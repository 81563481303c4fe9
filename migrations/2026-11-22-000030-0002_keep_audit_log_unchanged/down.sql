DROP INDEX audit_log_target_idx;
DROP INDEX audit_log_actor_idx;
COMMENT ON TABLE audit_log IS 'Who changed what. Written in the transaction of the change; never updated.';
DROP TRIGGER audit_log_no_truncate ON audit_log;
DROP TRIGGER audit_log_append_only ON audit_log;
DROP FUNCTION refuse_audit_log_change();
DROP FUNCTION audit_log_kept_from();
