-- What a job's settings must keep, held when they are written instead of at every write of the row. PostgreSQL reads all CHECK constraints of a
-- table anew in every statement that writes it, and evaluates each for every row: 26 rules about what hardly anybody changes took the leader, who
-- moves cursors, and the workers, who count what has ended, 4 of 30 ms for a thousand rows, and half of an update of a single one. A trigger that
-- names its columns costs nothing to a statement that sets none of them. What is broken is told as a CHECK tells it, by the same name.
CREATE FUNCTION check_settings_of_job() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    broken text;
BEGIN
    SELECT r.rule INTO broken
    FROM (VALUES
        ('scheduled_jobs_after_check', jsonb_typeof(NEW.after) = 'array'),
        ('scheduled_jobs_after_mode_check', NEW.after_mode IN ('all', 'any')),
        ('scheduled_jobs_calendar_roll_check', NEW.calendar_roll IN ('skip', 'next_business_day', 'previous_business_day')),
        ('scheduled_jobs_calendars_check', array_position(NEW.calendars, NULL) IS NULL),
        ('scheduled_jobs_dst_gap_check', NEW.dst_gap IN ('shift', 'skip')),
        ('scheduled_jobs_dst_overlap_check', NEW.dst_overlap IN ('first', 'second', 'both')),
        ('scheduled_jobs_end_after_start_check', NEW.end_at > NEW.start_at),
        ('scheduled_jobs_expected_duration_check', NEW.expected_duration_seconds > 0),
        ('scheduled_jobs_jitter_check', NEW.jitter_seconds BETWEEN 0 AND 86400),
        ('scheduled_jobs_made_from_check', NEW.made_from IS NULL
            OR (NEW.made_from ?& ARRAY['template', 'version', 'parameters']
                AND jsonb_typeof(NEW.made_from -> 'template') = 'string'
                AND jsonb_typeof(NEW.made_from -> 'version') = 'number'
                AND jsonb_typeof(NEW.made_from -> 'parameters') = 'object')),
        ('scheduled_jobs_max_instances_check', NEW.max_instances BETWEEN 1 AND 10000),
        ('scheduled_jobs_max_runs_check', NEW.max_runs > 0),
        ('scheduled_jobs_misfire_cap_check', NEW.misfire_cap BETWEEN 1 AND 10000),
        ('scheduled_jobs_misfire_grace_check', NEW.misfire_grace_seconds > 0),
        ('scheduled_jobs_misfire_policy_check', NEW.misfire_policy IN ('skip', 'fire_once', 'fire_all')),
        ('scheduled_jobs_name_check', NEW.name ~ '^[a-z0-9][a-z0-9._-]*$' AND length(NEW.name) <= 200),
        ('scheduled_jobs_overlap_policy_check', NEW.overlap_policy IN ('skip', 'queue', 'cancel_oldest', 'allow')),
        ('scheduled_jobs_priority_check', NEW.priority BETWEEN 0 AND 100),
        ('scheduled_jobs_project_iff_project_scope_check', (NEW.scope = 'project') = (NEW.project_id IS NOT NULL)),
        ('scheduled_jobs_retry_policy_check', jsonb_typeof(NEW.retry_policy) = 'object'),
        ('scheduled_jobs_schedule_config_check', jsonb_typeof(NEW.schedule_config) = 'object'),
        ('scheduled_jobs_scope_check', NEW.scope IN ('backup_infrastructure', 'system', 'project')),
        ('scheduled_jobs_start_within_check', NEW.start_within_seconds > 0),
        ('scheduled_jobs_task_args_check', jsonb_typeof(NEW.task_args) = 'object'),
        ('scheduled_jobs_timeout_check', NEW.timeout_seconds > 0),
        ('scheduled_jobs_version_check', NEW.version > 0)
    ) AS r (rule, is_kept)
    -- As with a CHECK, what cannot be told (NULL) passes.
    WHERE NOT r.is_kept
    ORDER BY r.rule LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'new row for relation "scheduled_jobs" violates check constraint "%"', broken
            USING ERRCODE = 'check_violation', SCHEMA = TG_TABLE_SCHEMA, TABLE = TG_TABLE_NAME, CONSTRAINT = broken;
    END IF;
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION check_settings_of_job() IS 'Refuses settings of a job that break a rule, under the name of a constraint.';

CREATE TRIGGER scheduled_jobs_settings_checked
    BEFORE INSERT OR UPDATE OF
        after, after_mode, calendar_roll, calendars, dst_gap, dst_overlap, end_at, start_at, expected_duration_seconds, jitter_seconds,
        made_from, max_instances, max_runs, misfire_cap, misfire_grace_seconds, misfire_policy, name, overlap_policy, priority, scope,
        project_id, retry_policy, schedule_config, start_within_seconds, task_args, timeout_seconds, version
    ON scheduled_jobs
    FOR EACH ROW EXECUTE FUNCTION check_settings_of_job();
COMMENT ON TRIGGER scheduled_jobs_settings_checked ON scheduled_jobs IS 'The settings keep their rules. A rule about a column that is not named here is a CHECK, held at every write.';

ALTER TABLE scheduled_jobs
    DROP CONSTRAINT scheduled_jobs_after_check,
    DROP CONSTRAINT scheduled_jobs_after_mode_check,
    DROP CONSTRAINT scheduled_jobs_calendar_roll_check,
    DROP CONSTRAINT scheduled_jobs_calendars_check,
    DROP CONSTRAINT scheduled_jobs_dst_gap_check,
    DROP CONSTRAINT scheduled_jobs_dst_overlap_check,
    DROP CONSTRAINT scheduled_jobs_end_after_start_check,
    DROP CONSTRAINT scheduled_jobs_expected_duration_check,
    DROP CONSTRAINT scheduled_jobs_jitter_check,
    DROP CONSTRAINT scheduled_jobs_made_from_check,
    DROP CONSTRAINT scheduled_jobs_max_instances_check,
    DROP CONSTRAINT scheduled_jobs_max_runs_check,
    DROP CONSTRAINT scheduled_jobs_misfire_cap_check,
    DROP CONSTRAINT scheduled_jobs_misfire_grace_check,
    DROP CONSTRAINT scheduled_jobs_misfire_policy_check,
    DROP CONSTRAINT scheduled_jobs_name_check,
    DROP CONSTRAINT scheduled_jobs_overlap_policy_check,
    DROP CONSTRAINT scheduled_jobs_priority_check,
    DROP CONSTRAINT scheduled_jobs_project_iff_project_scope_check,
    DROP CONSTRAINT scheduled_jobs_retry_policy_check,
    DROP CONSTRAINT scheduled_jobs_schedule_config_check,
    DROP CONSTRAINT scheduled_jobs_scope_check,
    DROP CONSTRAINT scheduled_jobs_start_within_check,
    DROP CONSTRAINT scheduled_jobs_task_args_check,
    DROP CONSTRAINT scheduled_jobs_timeout_check,
    DROP CONSTRAINT scheduled_jobs_version_check;
