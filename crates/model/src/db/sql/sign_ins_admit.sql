SELECT a.wait_seconds, a.failures FROM admit_sign_in($1, $2) AS a
