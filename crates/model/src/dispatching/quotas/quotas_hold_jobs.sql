-- Finds and locks nothing if no quota is set.
SELECT (t.quotas ->> 'jobs')::bigint FROM tenants t WHERE t.id = $1 AND t.quotas ? 'jobs' FOR NO KEY UPDATE
