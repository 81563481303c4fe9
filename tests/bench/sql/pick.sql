-- A thousand jobs by number, for pgbench to choose from.
CREATE TABLE bench.pick AS SELECT row_number() OVER (ORDER BY id)::integer AS n, id FROM scheduled_jobs ORDER BY id LIMIT 1000;
ALTER TABLE bench.pick ADD PRIMARY KEY (n);
ANALYZE bench.pick
