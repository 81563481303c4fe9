INSERT INTO tenants (id, slug, name) SELECT bench.tenant(n), 'bench-' || n, 'Bench ' || n FROM generate_series(1, {tenants}) AS n;
INSERT INTO projects (tenant_id, id, name, display_name)
    SELECT bench.tenant(n), bench.tenant(n), 'default', 'Default' FROM generate_series(1, {tenants}) AS n;
INSERT INTO queues (tenant_id, name) SELECT bench.tenant(n), 'default' FROM generate_series(1, {tenants}) AS n;
INSERT INTO task_functions (tenant_id, id, name, display_name, handler_type, handler_config)
    SELECT bench.tenant(n), bench.tenant(n), 'noop', 'Noop', 'process', '{"command": ["true"]}' FROM generate_series(1, {tenants}) AS n;
