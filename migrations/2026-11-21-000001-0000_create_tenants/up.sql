-- Tenants, their users, and who may do what in which tenant.
-- Every table that belongs to a tenant has (tenant_id, id) as its key, so that a foreign key can only ever point
-- inside the tenant it starts from.

CREATE TABLE tenants (
    id          uuid        NOT NULL DEFAULT gen_random_uuid(),
    slug        text        NOT NULL,
    name        text        NOT NULL,
    is_paused   boolean     NOT NULL DEFAULT false,
    quotas      jsonb       NOT NULL DEFAULT '{}',
    created_at  timestamptz NOT NULL DEFAULT now(),
    updated_at  timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT tenants_pkey PRIMARY KEY (id),
    CONSTRAINT tenants_slug_key UNIQUE (slug),
    CONSTRAINT tenants_slug_check CHECK (slug ~ '^[a-z0-9][a-z0-9-]{0,62}$'),
    CONSTRAINT tenants_name_check CHECK (length(name) BETWEEN 1 AND 200),
    CONSTRAINT tenants_quotas_check CHECK (jsonb_typeof(quotas) = 'object')
);
COMMENT ON TABLE  tenants            IS 'Organisations that share one installation and see nothing of each other.';
COMMENT ON COLUMN tenants.id         IS 'Random identifier.';
COMMENT ON COLUMN tenants.slug       IS 'Short stable name for commands and URLs.';
COMMENT ON COLUMN tenants.name       IS 'Name shown to people.';
COMMENT ON COLUMN tenants.is_paused  IS 'Kill switch: while true nothing of this tenant is dispatched or claimed.';
COMMENT ON COLUMN tenants.quotas     IS 'Limits by name (jobs, dispatches_per_minute, running_dispatches, log_bytes); a missing name means unlimited. Not in effect yet.';
COMMENT ON COLUMN tenants.created_at IS 'When the row was written, by the database clock.';
COMMENT ON COLUMN tenants.updated_at IS 'When the row was last changed, by the database clock.';

CREATE TABLE users (
    id            uuid        NOT NULL DEFAULT gen_random_uuid(),
    email         text        NOT NULL,
    display_name  text        NOT NULL,
    password_hash text,
    is_active     boolean     NOT NULL DEFAULT true,
    is_system_operator boolean NOT NULL DEFAULT false,
    last_login_at timestamptz,
    created_at    timestamptz NOT NULL DEFAULT now(),
    updated_at    timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT users_pkey PRIMARY KEY (id),
    CONSTRAINT users_email_check CHECK (email LIKE '%_@_%' AND length(email) <= 320),
    CONSTRAINT users_display_name_check CHECK (length(display_name) BETWEEN 1 AND 200),
    CONSTRAINT users_password_hash_check CHECK (password_hash IS NULL OR password_hash LIKE '$argon2%')
);
CREATE UNIQUE INDEX users_email_key ON users (lower(email));
COMMENT ON TABLE  users                    IS 'People who sign in. A user belongs to tenants through memberships.';
COMMENT ON COLUMN users.id                 IS 'Random identifier.';
COMMENT ON COLUMN users.email              IS 'Address the user signs in with; unique whatever its case.';
COMMENT ON COLUMN users.display_name       IS 'Name shown to people.';
COMMENT ON COLUMN users.password_hash      IS 'Argon2 hash in PHC form; NULL for users who sign in by other means.';
COMMENT ON COLUMN users.is_active          IS 'False refuses every sign-in and every key of this user.';
COMMENT ON COLUMN users.is_system_operator IS 'May operate the installation itself: instances, workers, tenants.';
COMMENT ON COLUMN users.last_login_at      IS 'Last successful sign-in; NULL before the first.';
COMMENT ON COLUMN users.created_at         IS 'When the row was written, by the database clock.';
COMMENT ON COLUMN users.updated_at         IS 'When the row was last changed, by the database clock.';

CREATE TABLE memberships (
    tenant_id  uuid        NOT NULL,
    user_id    uuid        NOT NULL,
    role       text        NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT memberships_pkey PRIMARY KEY (tenant_id, user_id),
    CONSTRAINT memberships_tenant_fkey FOREIGN KEY (tenant_id) REFERENCES tenants (id) ON DELETE CASCADE,
    CONSTRAINT memberships_user_fkey FOREIGN KEY (user_id) REFERENCES users (id) ON DELETE CASCADE,
    CONSTRAINT memberships_role_check CHECK (role IN ('viewer', 'operator', 'admin', 'owner'))
);
CREATE INDEX memberships_user_id_idx ON memberships (user_id);
COMMENT ON TABLE  memberships            IS 'Which user acts in which tenant, and with what role.';
COMMENT ON COLUMN memberships.tenant_id  IS 'The tenant.';
COMMENT ON COLUMN memberships.user_id    IS 'The user.';
COMMENT ON COLUMN memberships.role       IS 'viewer reads, operator runs and pauses, admin changes, owner also manages people.';
COMMENT ON COLUMN memberships.created_at IS 'When the user joined, by the database clock.';

CREATE TABLE api_keys (
    tenant_id    uuid        NOT NULL,
    id           uuid        NOT NULL DEFAULT gen_random_uuid(),
    user_id      uuid,
    name         text        NOT NULL,
    key_prefix   text        NOT NULL,
    key_hash     bytea       NOT NULL,
    scopes       text[]      NOT NULL DEFAULT '{}',
    expires_at   timestamptz,
    revoked_at   timestamptz,
    last_used_at timestamptz,
    created_at   timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT api_keys_pkey PRIMARY KEY (tenant_id, id),
    CONSTRAINT api_keys_tenant_fkey FOREIGN KEY (tenant_id) REFERENCES tenants (id) ON DELETE CASCADE,
    CONSTRAINT api_keys_membership_fkey FOREIGN KEY (tenant_id, user_id) REFERENCES memberships (tenant_id, user_id) ON DELETE CASCADE,
    CONSTRAINT api_keys_key_prefix_key UNIQUE (key_prefix),
    CONSTRAINT api_keys_name_check CHECK (length(name) BETWEEN 1 AND 200),
    CONSTRAINT api_keys_key_hash_check CHECK (length(key_hash) = 32),
    CONSTRAINT api_keys_expires_after_created_check CHECK (expires_at IS NULL OR expires_at > created_at)
);
COMMENT ON TABLE  api_keys              IS 'Keys by which programs act in one tenant. The secret itself is never stored.';
COMMENT ON COLUMN api_keys.tenant_id    IS 'The one tenant this key acts in.';
COMMENT ON COLUMN api_keys.id           IS 'Random identifier.';
COMMENT ON COLUMN api_keys.user_id      IS 'The member who owns the key and bounds its rights; NULL for a key of the tenant itself.';
COMMENT ON COLUMN api_keys.name         IS 'What the key is for, shown to people.';
COMMENT ON COLUMN api_keys.key_prefix   IS 'Public part of the key, by which it is looked up and recognised in logs.';
COMMENT ON COLUMN api_keys.key_hash     IS 'Keyed 256-bit hash of the whole key.';
COMMENT ON COLUMN api_keys.scopes       IS 'What the key may do; empty means all its owner may.';
COMMENT ON COLUMN api_keys.expires_at   IS 'After this instant the key is refused; NULL never expires.';
COMMENT ON COLUMN api_keys.revoked_at   IS 'When the key was revoked; NULL while it is valid.';
COMMENT ON COLUMN api_keys.last_used_at IS 'Last use, coarse, so that a call does not cost a write.';
COMMENT ON COLUMN api_keys.created_at   IS 'When the key was made, by the database clock.';

CREATE TABLE projects (
    tenant_id    uuid        NOT NULL,
    id           uuid        NOT NULL DEFAULT gen_random_uuid(),
    name         text        NOT NULL,
    display_name text        NOT NULL,
    description  text        NOT NULL DEFAULT '',
    is_paused    boolean     NOT NULL DEFAULT false,
    pause_reason text,
    created_at   timestamptz NOT NULL DEFAULT now(),
    updated_at   timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT projects_pkey PRIMARY KEY (tenant_id, id),
    CONSTRAINT projects_tenant_fkey FOREIGN KEY (tenant_id) REFERENCES tenants (id) ON DELETE CASCADE,
    CONSTRAINT projects_name_key UNIQUE (tenant_id, name),
    CONSTRAINT projects_name_check CHECK (name ~ '^[a-z0-9][a-z0-9._-]{0,99}$'),
    CONSTRAINT projects_pause_reason_check CHECK (pause_reason IS NULL OR is_paused)
);
COMMENT ON TABLE  projects              IS 'Groups of jobs within a tenant. Deleting a project deletes its jobs.';
COMMENT ON COLUMN projects.tenant_id    IS 'Owner.';
COMMENT ON COLUMN projects.id           IS 'Random identifier.';
COMMENT ON COLUMN projects.name         IS 'Stable name, unique in the tenant.';
COMMENT ON COLUMN projects.display_name IS 'Name shown to people.';
COMMENT ON COLUMN projects.description  IS 'Free text.';
COMMENT ON COLUMN projects.is_paused    IS 'Kill switch: while true no job of the project is dispatched or claimed.';
COMMENT ON COLUMN projects.pause_reason IS 'Why it is paused, for people; NULL unless paused.';
COMMENT ON COLUMN projects.created_at   IS 'When the row was written, by the database clock.';
COMMENT ON COLUMN projects.updated_at   IS 'When the row was last changed, by the database clock.';
