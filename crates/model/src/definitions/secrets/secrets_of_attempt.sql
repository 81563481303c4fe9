WITH input AS (SELECT $1::uuid AS tenant_id, $2::uuid AS job_id, $3::text[] AS names)
SELECT DISTINCT ON (s.name) s.id, s.tenant_id, s.project_id, s.name, s.version, s.key_id, s.nonce, s.ciphertext
FROM input i
JOIN scheduled_jobs j ON j.tenant_id = i.tenant_id AND j.id = i.job_id
JOIN secrets s ON s.tenant_id = i.tenant_id AND s.name = ANY (i.names) AND (s.project_id IS NULL OR s.project_id = j.project_id)
ORDER BY s.name, s.project_id NULLS LAST
