-- Attempts of a tenant without success: one scan of their index for each status, merged.
SELECT f.*
FROM unnest($1::text[]) AS s (status)
CROSS JOIN LATERAL (
