-- Those of the tenants that have a quota of what runs: who claims from another queue of theirs waits here.
SELECT t.id
FROM tenants t
WHERE t.id = ANY ($1::uuid[]) AND t.quotas ? 'running_dispatches'
ORDER BY t.id
FOR NO KEY UPDATE
