-- One tenant, project and queue named `default`, so that a new installation accepts jobs at once.
-- No user and no key is created, so these rows allow no sign-in.

INSERT INTO tenants (id, slug, name)
VALUES ('00000000-0000-7000-8000-000000000001', 'default', 'Default');
INSERT INTO projects (tenant_id, id, name, display_name)
VALUES ('00000000-0000-7000-8000-000000000001', '00000000-0000-7000-8000-000000000002',
        'default', 'Default');
INSERT INTO queues (tenant_id, name, description)
VALUES ('00000000-0000-7000-8000-000000000001', 'default',
        'Where dispatches wait unless their job or function names another queue.');
