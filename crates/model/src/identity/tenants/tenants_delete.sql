-- Through a database function, so that an operator of the installation can delete rows that they
-- cannot see.
SELECT delete_tenant($1, $2)
