ALTER TABLE scheduled_jobs DROP CONSTRAINT scheduled_jobs_made_from_check;
ALTER TABLE scheduled_jobs ADD CONSTRAINT scheduled_jobs_made_from_check CHECK (
    made_from IS NULL
    OR (made_from ?& ARRAY['template', 'version', 'parameters']
        AND jsonb_typeof(made_from -> 'template') = 'string'
        AND jsonb_typeof(made_from -> 'version') = 'number'
        AND jsonb_typeof(made_from -> 'parameters') = 'object')) NOT VALID;
