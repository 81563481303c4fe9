-- Through a door of the database, so that who operates the installation may delete what they do not see.
SELECT delete_tenant($1, $2)
