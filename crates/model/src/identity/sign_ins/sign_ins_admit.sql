-- Addresses that the database considers equal, in any spelling, are one account.
SELECT a.wait_seconds, a.failures FROM admit_sign_in(sha256(convert_to('account ' || lower($1), 'UTF8')), $2) AS a
