ALTER TABLE scheduler_instances
    DROP COLUMN clock_offset_seconds,
    DROP COLUMN step_down_term,
    DROP COLUMN step_down_requested_at;
