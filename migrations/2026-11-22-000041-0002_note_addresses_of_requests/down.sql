DROP FUNCTION trigger_jobs(uuid, smallint, text, uuid[], text[], boolean[], text[], jsonb[], text[], text[], text[], text[]);
ALTER TABLE audit_log DROP COLUMN address;
