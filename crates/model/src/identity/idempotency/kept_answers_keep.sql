INSERT INTO kept_answers (tenant_id, caller, key, fingerprint, status, location, etag, body)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
