-- The roles stay: other databases of the server may use them, and they have no rights here now.
-- If no database needs them: DROP ROLE sched_api, sched_daemon.
DROP FUNCTION isolate_tenants(regclass);
DROP SCHEMA maintenance_archive;
DROP SCHEMA history_archive;
DROP SCHEMA maintenance;
