-- What the benchmark needs besides the product's own schema; in a schema of its own.
CREATE SCHEMA bench;

-- A time-ordered identifier, as the daemons make them: milliseconds, version, random.
CREATE FUNCTION bench.time_ordered(at timestamptz) RETURNS uuid LANGUAGE sql VOLATILE AS $$
    SELECT (left(hex, 8) || '-' || right(hex, 4) || '-7' || substr(gen_random_uuid()::text, 16))::uuid
    FROM (SELECT lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') AS hex) AS u
$$;

-- Tenants, and in each one project and one function of the same identifier.
CREATE FUNCTION bench.tenant(n integer) RETURNS uuid LANGUAGE sql IMMUTABLE AS $$
    SELECT ('00000000-0000-7000-9000-' || lpad(to_hex(n), 12, '0'))::uuid
$$;

-- The jobs that a burst makes due.
CREATE TABLE bench.due (
    tenant_id uuid NOT NULL,
    id        uuid NOT NULL,
    CONSTRAINT due_pkey PRIMARY KEY (tenant_id, id)
);

-- What the probe of a commit writes.
CREATE TABLE bench.scratch (pad text NOT NULL);

-- Where a measurement begins: what was there before is history.
CREATE TABLE bench.mark (
    at       timestamptz NOT NULL,
    first_id uuid        NOT NULL
);
