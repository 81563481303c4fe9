-- A key may be renamed, and come to do less or to end sooner. That it never comes to do more is decided where it is changed: who may make a key
-- could make one that does.
GRANT UPDATE (name, scopes, expires_at) ON api_keys TO sched_api;
