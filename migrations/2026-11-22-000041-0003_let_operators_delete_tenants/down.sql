DROP FUNCTION delete_tenant(uuid, bigint);
