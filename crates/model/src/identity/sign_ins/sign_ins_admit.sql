-- An account is what the database takes for the same address, however that is spelt.
SELECT a.wait_seconds, a.failures FROM admit_sign_in(sha256(convert_to('account ' || lower($1), 'UTF8')), $2) AS a
