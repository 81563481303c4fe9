DROP FUNCTION trigger_jobs(uuid, smallint, text, uuid[], text[], boolean[], text[], jsonb[],
    text[], text[], text[], text[]);
