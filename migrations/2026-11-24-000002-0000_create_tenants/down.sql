DROP TABLE sign_in_failures;
DROP TABLE sessions;
DROP TABLE api_keys;
DROP TABLE projects;
DROP TABLE memberships;
DROP TABLE users;
DROP FUNCTION end_sessions_of_user();
DROP TABLE tenants;
