UPDATE secrets s
SET key_id = u.key_id, nonce = u.nonce, ciphertext = u.ciphertext
FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::bytea[], $5::bytea[]) AS u (tenant_id, id, key_id, nonce, ciphertext)
WHERE s.tenant_id = u.tenant_id AND s.id = u.id
