-- Rows of months without their own partition when they were written: few or none.
WITH input AS (SELECT $1::timestamptz AS finished, $2::bigint AS page),
attempts AS (
    DELETE FROM job_execution_log_default l WHERE l.ctid = ANY (ARRAY(
        SELECT o.ctid FROM job_execution_log_default o WHERE o.started_at < (SELECT finished FROM input) LIMIT (SELECT page FROM input)))
    RETURNING 1
),
output AS (
    DELETE FROM job_execution_output_default l WHERE l.ctid = ANY (ARRAY(
        SELECT o.ctid FROM job_execution_output_default o WHERE o.started_at < (SELECT finished FROM input) LIMIT (SELECT page FROM input)))
    RETURNING 1
),
attempts_apart AS (
    DELETE FROM maintenance.job_execution_log_default l WHERE l.ctid = ANY (ARRAY(
        SELECT o.ctid FROM maintenance.job_execution_log_default o WHERE o.started_at < (SELECT finished FROM input) LIMIT (SELECT page FROM input)))
    RETURNING 1
),
output_apart AS (
    DELETE FROM maintenance.job_execution_output_default l WHERE l.ctid = ANY (ARRAY(
        SELECT o.ctid FROM maintenance.job_execution_output_default o WHERE o.started_at < (SELECT finished FROM input) LIMIT (SELECT page FROM input)))
    RETURNING 1
),
events AS (
    DELETE FROM events_default l WHERE l.ctid = ANY (ARRAY(
        SELECT o.ctid FROM events_default o WHERE o.created_at < (SELECT finished FROM input) LIMIT (SELECT page FROM input)))
    RETURNING 1
),
starts AS (
    DELETE FROM run_start_batches_default l WHERE l.ctid = ANY (ARRAY(
        SELECT o.ctid FROM run_start_batches_default o WHERE o.created_at < (SELECT finished FROM input) LIMIT (SELECT page FROM input)))
    RETURNING 1
),
ends AS (
    DELETE FROM run_end_batches_default l WHERE l.ctid = ANY (ARRAY(
        SELECT o.ctid FROM run_end_batches_default o WHERE o.created_at < (SELECT finished FROM input) LIMIT (SELECT page FROM input)))
    RETURNING 1
)
SELECT (SELECT count(*) FROM attempts) + (SELECT count(*) FROM attempts_apart),
       (SELECT count(*) FROM output) + (SELECT count(*) FROM output_apart),
       (SELECT count(*) FROM events) + (SELECT count(*) FROM starts) + (SELECT count(*) FROM ends)
