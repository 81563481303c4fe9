-- What a job was made from. A column without a default rewrites nothing, and the rule is checked for new rows only: the next migration
-- looks at the old ones, under a lock that stops nobody.
ALTER TABLE scheduled_jobs ADD COLUMN made_from jsonb;
ALTER TABLE scheduled_jobs ADD CONSTRAINT scheduled_jobs_made_from_check CHECK (
    made_from IS NULL
    OR (made_from ?& ARRAY['template', 'version', 'parameters']
        AND jsonb_typeof(made_from -> 'template') = 'string'
        AND jsonb_typeof(made_from -> 'version') = 'number'
        AND jsonb_typeof(made_from -> 'parameters') = 'object')) NOT VALID;
COMMENT ON COLUMN scheduled_jobs.made_from IS 'The template it was made from: its name and version then, and the parameters that were given; NULL when none. Says whence it came, not what it is.';
