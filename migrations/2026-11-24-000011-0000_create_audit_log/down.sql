DROP TABLE kept_answers;
DROP TABLE audit_log;
DROP FUNCTION refuse_audit_log_change();
DROP FUNCTION audit_log_kept_from();
