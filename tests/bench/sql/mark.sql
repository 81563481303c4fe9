-- Rows that are written from now on belong to the measurement.
DELETE FROM bench.mark;
INSERT INTO bench.mark SELECT clock_timestamp(), (left(bench.time_ordered(clock_timestamp())::text, 13) || '-7000-8000-000000000000')::uuid
