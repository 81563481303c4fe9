SELECT forgive_sign_in($1, $2)
