DO $$ BEGIN
    IF NOT EXISTS (SELECT FROM __diesel_schema_migrations) THEN
        DROP TABLE __diesel_schema_migrations;
    END IF;
END $$
