-- Jobs of a tenant, one created every second up to now. All other settings have the defaults of the
-- product.
INSERT INTO scheduled_jobs (tenant_id, id, project_id, name, task_function_id, task_args, job_type, schedule_config,
                            overlap_policy, next_run_at, settled_until)
SELECT bench.tenant({tenant}), bench.time_ordered(now() - make_interval(secs => {count} - n)), bench.tenant({tenant}),
       '{prefix}-' || {tenant} || '-' || n, bench.tenant({tenant}), jsonb_build_object('n', n), '{job_type}', {config},
       '{overlap}', {next}, {next} - {settled_before}
FROM generate_series(1, {count}) AS n;

-- Their versions, so that runs do not store the arguments of their jobs.
INSERT INTO scheduled_job_versions (tenant_id, job_id, version, change, settings, changed_src)
SELECT j.tenant_id, j.id, j.version, 'created', to_jsonb(j), 'bench'
FROM scheduled_jobs AS j
WHERE j.tenant_id = bench.tenant({tenant})
ON CONFLICT DO NOTHING;
