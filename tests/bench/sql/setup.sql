-- The additions of the benchmark, in a separate schema.
CREATE SCHEMA bench;

-- A time-ordered id like those of the daemons: milliseconds, version, random.
CREATE FUNCTION bench.time_ordered(at timestamptz) RETURNS uuid LANGUAGE sql VOLATILE AS $$
    SELECT (left(hex, 8) || '-' || right(hex, 4) || '-7' || substr(gen_random_uuid()::text, 16))::uuid
    FROM (SELECT lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') AS hex) AS u
$$;

-- Ids of tenants. The project and the function of a tenant have the same id.
CREATE FUNCTION bench.tenant(n integer) RETURNS uuid LANGUAGE sql IMMUTABLE AS $$
    SELECT ('00000000-0000-7000-9000-' || lpad(to_hex(n), 12, '0'))::uuid
$$;

-- The jobs of a burst.
CREATE TABLE bench.due (
    tenant_id uuid NOT NULL,
    id        uuid NOT NULL,
    CONSTRAINT due_pkey PRIMARY KEY (tenant_id, id)
);

-- The rows that the measurement of a flush writes.
CREATE TABLE bench.scratch (pad text NOT NULL);

-- The begin of a measurement: older rows are history.
CREATE TABLE bench.mark (
    at       timestamptz NOT NULL,
    first_id uuid        NOT NULL
);
