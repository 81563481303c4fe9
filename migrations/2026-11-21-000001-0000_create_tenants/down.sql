DROP TABLE projects;
DROP TABLE api_keys;
DROP TABLE memberships;
DROP TABLE users;
DROP TABLE tenants;
