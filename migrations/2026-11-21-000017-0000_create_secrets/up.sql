-- Secrets: values that functions name and that nobody but a running attempt is told. Encrypted before they come here; the
-- keys are in files of the API and the workers and never in the database, so neither a dump nor a backup holds a value.
--
-- A new table only: nothing that exists is locked for longer than its foreign keys take to be noted.

CREATE TABLE secrets (
    tenant_id   uuid        NOT NULL,
    id          uuid        NOT NULL DEFAULT gen_random_uuid(),
    project_id  uuid,
    name        text        NOT NULL,
    key_id      text        NOT NULL,
    nonce       bytea       NOT NULL,
    ciphertext  bytea       NOT NULL,
    version     bigint      NOT NULL DEFAULT 1,
    created_at  timestamptz NOT NULL DEFAULT now(),
    created_src text        NOT NULL DEFAULT 'sql',
    updated_at  timestamptz NOT NULL DEFAULT now(),
    updated_src text        NOT NULL DEFAULT 'sql',
    CONSTRAINT secrets_pkey PRIMARY KEY (tenant_id, id),
    CONSTRAINT secrets_tenant_fkey FOREIGN KEY (tenant_id) REFERENCES tenants (id) ON DELETE CASCADE,
    CONSTRAINT secrets_project_fkey FOREIGN KEY (tenant_id, project_id) REFERENCES projects (tenant_id, id) ON DELETE CASCADE,
    CONSTRAINT secrets_name_key UNIQUE NULLS NOT DISTINCT (tenant_id, name, project_id),
    CONSTRAINT secrets_name_check CHECK (name ~ '^[a-z0-9][a-z0-9._-]{0,99}$'),
    CONSTRAINT secrets_key_id_check CHECK (key_id ~ '^[a-z0-9][a-z0-9._-]{0,63}$'),
    CONSTRAINT secrets_nonce_check CHECK (length(nonce) = 12),
    -- The tag of 16 bytes around 1 byte to 64 KiB.
    CONSTRAINT secrets_ciphertext_check CHECK (length(ciphertext) BETWEEN 17 AND 65552),
    CONSTRAINT secrets_version_check CHECK (version > 0)
);
-- The rows of a deleted project, and nothing else, are looked for by project.
CREATE INDEX secrets_project_id_idx ON secrets (tenant_id, project_id) WHERE project_id IS NOT NULL;
-- Ciphertext does not compress.
ALTER TABLE secrets ALTER COLUMN ciphertext SET STORAGE EXTERNAL;

COMMENT ON TABLE  secrets             IS 'Encrypted values that functions name: passwords, tokens, keys. Never shown to anybody; known to running attempts only.';
COMMENT ON COLUMN secrets.tenant_id   IS 'Owner.';
COMMENT ON COLUMN secrets.id          IS 'Identifier.';
COMMENT ON COLUMN secrets.project_id  IS 'The project whose jobs may have it; NULL for all jobs of the tenant. That of the project goes before that of the tenant.';
COMMENT ON COLUMN secrets.name        IS 'Stable name, unique in the project, or among those of the whole tenant; functions refer to it.';
COMMENT ON COLUMN secrets.key_id      IS 'Which key of the key file it is encrypted with.';
COMMENT ON COLUMN secrets.nonce       IS 'Made at random for every write; not secret.';
COMMENT ON COLUMN secrets.ciphertext  IS 'The value, encrypted and authenticated (ChaCha20-Poly1305) together with tenant, project, name, key and version.';
COMMENT ON COLUMN secrets.version     IS 'Grows with every new value.';
COMMENT ON COLUMN secrets.created_at  IS 'When it was created, by the database clock.';
COMMENT ON COLUMN secrets.created_src IS 'Which component or whose e-mail wrote the row first.';
COMMENT ON COLUMN secrets.updated_at  IS 'When its value last changed, by the database clock.';
COMMENT ON COLUMN secrets.updated_src IS 'Which component or whose e-mail changed it last.';
