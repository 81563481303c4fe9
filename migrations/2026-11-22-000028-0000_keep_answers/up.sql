-- Answers to requests that came with an `Idempotency-Key` (API-1): written in the transaction of the change, so that the change and the
-- answer that tells of it are there together or not at all. A key of a trigger stands with its dispatch instead (`idempotency_key` there).
--
-- A new table only. Rows are written once and removed by age in small batches, so vacuum goes by their number.

CREATE TABLE kept_answers (
    tenant_id   uuid        NOT NULL,
    caller      text        NOT NULL,
    key         text        NOT NULL,
    fingerprint bytea       NOT NULL,
    status      smallint    NOT NULL,
    location    text,
    etag        text,
    body        text,
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT kept_answers_pkey PRIMARY KEY (tenant_id, caller, key),
    CONSTRAINT kept_answers_tenant_fkey FOREIGN KEY (tenant_id) REFERENCES tenants (id) ON DELETE CASCADE,
    CONSTRAINT kept_answers_key_check CHECK (key ~ '^[!-~]{1,200}$'),
    CONSTRAINT kept_answers_fingerprint_check CHECK (length(fingerprint) = 32),
    -- What was refused may be asked for again: only what was done is kept.
    CONSTRAINT kept_answers_status_check CHECK (status BETWEEN 200 AND 299)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX kept_answers_created_at_idx ON kept_answers (created_at);

COMMENT ON TABLE  kept_answers             IS 'Answers to requests with an Idempotency-Key, given again when the request is sent again. Holds no secrets: requests about those take no key.';
COMMENT ON INDEX  kept_answers_created_at_idx IS 'Finds what is too old to be kept.';
COMMENT ON COLUMN kept_answers.tenant_id   IS 'Tenant in which the request acted.';
COMMENT ON COLUMN kept_answers.caller      IS 'Who sent it: the prefix of the API key, or the e-mail behind a token. Keys of others are others.';
COMMENT ON COLUMN kept_answers.key         IS 'What the client named the request.';
COMMENT ON COLUMN kept_answers.fingerprint IS 'SHA-256 of method, path, parameters and body, by which the same request is told from another under the same key.';
COMMENT ON COLUMN kept_answers.status      IS 'Status of the answer.';
COMMENT ON COLUMN kept_answers.location    IS 'Its Location; NULL without one.';
COMMENT ON COLUMN kept_answers.etag        IS 'Its ETag, with quotes; NULL without one.';
COMMENT ON COLUMN kept_answers.body        IS 'Its body, JSON as it was sent; NULL without one.';
COMMENT ON COLUMN kept_answers.created_at  IS 'When it was given first, by the database clock; decides when it goes.';

SELECT isolate_tenants('kept_answers');
GRANT SELECT, INSERT ON kept_answers TO sched_api;
