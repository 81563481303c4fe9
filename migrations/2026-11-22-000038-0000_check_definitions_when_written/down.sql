-- All rows are looked at here, with the table locked.
ALTER TABLE scheduled_jobs
    ADD CONSTRAINT scheduled_jobs_after_check CHECK (jsonb_typeof(after) = 'array'),
    ADD CONSTRAINT scheduled_jobs_after_mode_check CHECK (after_mode IN ('all', 'any')),
    ADD CONSTRAINT scheduled_jobs_calendar_roll_check CHECK (calendar_roll IN ('skip', 'next_business_day', 'previous_business_day')),
    ADD CONSTRAINT scheduled_jobs_calendars_check CHECK (array_position(calendars, NULL) IS NULL),
    ADD CONSTRAINT scheduled_jobs_dst_gap_check CHECK (dst_gap IN ('shift', 'skip')),
    ADD CONSTRAINT scheduled_jobs_dst_overlap_check CHECK (dst_overlap IN ('first', 'second', 'both')),
    ADD CONSTRAINT scheduled_jobs_end_after_start_check CHECK (end_at > start_at),
    ADD CONSTRAINT scheduled_jobs_expected_duration_check CHECK (expected_duration_seconds > 0),
    ADD CONSTRAINT scheduled_jobs_jitter_check CHECK (jitter_seconds BETWEEN 0 AND 86400),
    ADD CONSTRAINT scheduled_jobs_made_from_check CHECK (made_from IS NULL
        OR (made_from ?& ARRAY['template', 'version', 'parameters']
            AND jsonb_typeof(made_from -> 'template') = 'string'
            AND jsonb_typeof(made_from -> 'version') = 'number'
            AND jsonb_typeof(made_from -> 'parameters') = 'object')),
    ADD CONSTRAINT scheduled_jobs_max_instances_check CHECK (max_instances BETWEEN 1 AND 10000),
    ADD CONSTRAINT scheduled_jobs_max_runs_check CHECK (max_runs > 0),
    ADD CONSTRAINT scheduled_jobs_misfire_cap_check CHECK (misfire_cap BETWEEN 1 AND 10000),
    ADD CONSTRAINT scheduled_jobs_misfire_grace_check CHECK (misfire_grace_seconds > 0),
    ADD CONSTRAINT scheduled_jobs_misfire_policy_check CHECK (misfire_policy IN ('skip', 'fire_once', 'fire_all')),
    ADD CONSTRAINT scheduled_jobs_name_check CHECK (name ~ '^[a-z0-9][a-z0-9._-]*$' AND length(name) <= 200),
    ADD CONSTRAINT scheduled_jobs_overlap_policy_check CHECK (overlap_policy IN ('skip', 'queue', 'cancel_oldest', 'allow')),
    ADD CONSTRAINT scheduled_jobs_priority_check CHECK (priority BETWEEN 0 AND 100),
    ADD CONSTRAINT scheduled_jobs_project_iff_project_scope_check CHECK ((scope = 'project') = (project_id IS NOT NULL)),
    ADD CONSTRAINT scheduled_jobs_retry_policy_check CHECK (jsonb_typeof(retry_policy) = 'object'),
    ADD CONSTRAINT scheduled_jobs_schedule_config_check CHECK (jsonb_typeof(schedule_config) = 'object'),
    ADD CONSTRAINT scheduled_jobs_scope_check CHECK (scope IN ('backup_infrastructure', 'system', 'project')),
    ADD CONSTRAINT scheduled_jobs_start_within_check CHECK (start_within_seconds > 0),
    ADD CONSTRAINT scheduled_jobs_task_args_check CHECK (jsonb_typeof(task_args) = 'object'),
    ADD CONSTRAINT scheduled_jobs_timeout_check CHECK (timeout_seconds > 0),
    ADD CONSTRAINT scheduled_jobs_version_check CHECK (version > 0);
DROP TRIGGER scheduled_jobs_settings_checked ON scheduled_jobs;
DROP FUNCTION check_settings_of_job();
