SELECT f.id FROM find_user($1) AS f (id)
