DROP FUNCTION installation_health();
