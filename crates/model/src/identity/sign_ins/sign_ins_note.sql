SELECT note_sign_in($1, $2)
