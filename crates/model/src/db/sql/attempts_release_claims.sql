DELETE FROM worker_claims WHERE id = ANY ($1::bigint[]) RETURNING id
