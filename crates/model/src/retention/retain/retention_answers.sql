-- The oldest stored responses that no transaction has locked.
WITH input AS (SELECT $1::timestamptz AS before_at, $2::bigint AS max_rows),
old AS MATERIALIZED (
    SELECT k.tenant_id, k.caller, k.key
    FROM kept_answers k
    WHERE k.created_at < (SELECT before_at FROM input)
    ORDER BY k.created_at
    LIMIT (SELECT max_rows FROM input)
    FOR UPDATE SKIP LOCKED
),
gone AS (
    DELETE FROM kept_answers k USING old o
    WHERE k.tenant_id = o.tenant_id AND k.caller = o.caller AND k.key = o.key
    RETURNING 1
)
SELECT count(*) FROM gone
