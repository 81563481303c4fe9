-- The oldest totals by minute that no transaction has locked.
WITH input AS (SELECT $1::timestamptz AS before_at, $2::bigint AS max_rows),
gone AS (
    DELETE FROM attempt_minutes m
    WHERE m.ctid = ANY (ARRAY(
        SELECT o.ctid FROM attempt_minutes o
        WHERE o.minute < (SELECT before_at FROM input)
        ORDER BY o.minute
        LIMIT (SELECT max_rows FROM input)
        FOR UPDATE SKIP LOCKED))
    RETURNING 1
)
SELECT count(*) FROM gone
