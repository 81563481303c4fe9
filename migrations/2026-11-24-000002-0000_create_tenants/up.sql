-- Tenants, their projects, users and memberships, and the keys and sessions that act for users.
-- The key of a table that belongs to a tenant begins with tenant_id, so a foreign key cannot point
-- into another tenant.

CREATE TABLE tenants (
    id           uuid        NOT NULL DEFAULT gen_random_uuid(),
    slug         text        NOT NULL,
    name         text        NOT NULL,
    is_paused    boolean     NOT NULL DEFAULT false,
    quotas       jsonb       NOT NULL DEFAULT '{}',
    created_at   timestamptz NOT NULL DEFAULT now(),
    updated_at   timestamptz NOT NULL DEFAULT now(),
    pause_reason text,
    CONSTRAINT tenants_pkey PRIMARY KEY (id),
    CONSTRAINT tenants_slug_key UNIQUE (slug),
    CONSTRAINT tenants_slug_check CHECK (slug ~ '^[a-z0-9][a-z0-9-]{0,62}$'),
    CONSTRAINT tenants_name_check CHECK (length(name) BETWEEN 1 AND 200),
    CONSTRAINT tenants_quotas_check CHECK (jsonb_typeof(quotas) = 'object'),
    CONSTRAINT tenants_pause_reason_check CHECK (pause_reason IS NULL OR is_paused),
    CONSTRAINT tenants_known_quotas_check CHECK (
        quotas - ARRAY['jobs', 'dispatches_per_minute', 'running_dispatches', 'log_bytes'] = '{}'
        AND NOT jsonb_path_exists(quotas, 'strict $.* ? (@.type() != "number")')
        AND NOT jsonb_path_exists(
            quotas, 'strict $.* ? (@ < 0 || @ > 9007199254740991 || @ != @.floor())'))
);
CREATE INDEX tenants_running_quota_idx ON tenants (id) WHERE quotas ? 'running_dispatches';
COMMENT ON TABLE tenants IS 'Organisations that share one installation and cannot see each other.';
COMMENT ON CONSTRAINT tenants_known_quotas_check ON tenants IS
    'Only known names, and whole numbers from 0 that every JSON reader can represent.';
COMMENT ON INDEX tenants_running_quota_idx IS
    'Tenants with a limit on concurrent runs; every claim reads them.';
COMMENT ON COLUMN tenants.id IS 'Random identifier.';
COMMENT ON COLUMN tenants.slug IS 'Short stable name for commands and URLs.';
COMMENT ON COLUMN tenants.name IS 'Display name.';
COMMENT ON COLUMN tenants.is_paused IS
    'Kill switch: while true, no run of the tenant is dispatched or claimed.';
COMMENT ON COLUMN tenants.quotas IS
    'Limits by name: jobs, dispatches_per_minute (fires and triggers), running_dispatches, '
    'log_bytes (kept per UTC day). A missing name means no limit.';
COMMENT ON COLUMN tenants.created_at IS 'Creation time, by the database clock.';
COMMENT ON COLUMN tenants.updated_at IS 'Last change, by the database clock.';
COMMENT ON COLUMN tenants.pause_reason IS 'Reason of the pause, for people; NULL unless paused.';

CREATE TABLE users (
    id                 uuid        NOT NULL DEFAULT gen_random_uuid(),
    email              text        NOT NULL,
    display_name       text        NOT NULL,
    password_hash      text,
    is_active          boolean     NOT NULL DEFAULT true,
    is_system_operator boolean     NOT NULL DEFAULT false,
    last_login_at      timestamptz,
    created_at         timestamptz NOT NULL DEFAULT now(),
    updated_at         timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT users_pkey PRIMARY KEY (id),
    CONSTRAINT users_email_check CHECK (email LIKE '%_@_%' AND length(email) <= 320),
    CONSTRAINT users_display_name_check CHECK (length(display_name) BETWEEN 1 AND 200),
    CONSTRAINT users_password_hash_check
        CHECK (password_hash IS NULL OR password_hash LIKE '$argon2%')
);
CREATE UNIQUE INDEX users_email_key ON users (lower(email));
COMMENT ON TABLE users IS 'User accounts. A user belongs to tenants through memberships.';
COMMENT ON COLUMN users.id IS 'Random identifier.';
COMMENT ON COLUMN users.email IS 'Sign-in address, unique without regard to case.';
COMMENT ON COLUMN users.display_name IS 'Display name.';
COMMENT ON COLUMN users.password_hash IS
    'Argon2 hash in PHC form; NULL for users with another sign-in method.';
COMMENT ON COLUMN users.is_active IS 'False rejects every sign-in and every key of this user.';
COMMENT ON COLUMN users.is_system_operator IS
    'May operate the installation: tenants, users, leadership, workers, keys of secrets.';
COMMENT ON COLUMN users.last_login_at IS 'Last successful sign-in; NULL before the first.';
COMMENT ON COLUMN users.created_at IS 'Creation time, by the database clock.';
COMMENT ON COLUMN users.updated_at IS 'Last change, by the database clock.';

CREATE TABLE memberships (
    tenant_id  uuid        NOT NULL,
    user_id    uuid        NOT NULL,
    role       text        NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT memberships_pkey PRIMARY KEY (tenant_id, user_id),
    CONSTRAINT memberships_tenant_fkey FOREIGN KEY (tenant_id)
        REFERENCES tenants (id) ON DELETE CASCADE,
    CONSTRAINT memberships_user_fkey FOREIGN KEY (user_id) REFERENCES users (id) ON DELETE CASCADE,
    CONSTRAINT memberships_role_check CHECK (role IN ('viewer', 'operator', 'admin', 'owner'))
);
CREATE INDEX memberships_user_id_idx ON memberships (user_id);
COMMENT ON TABLE memberships IS 'Membership and role of a user in a tenant.';
COMMENT ON COLUMN memberships.tenant_id IS 'The tenant.';
COMMENT ON COLUMN memberships.user_id IS 'The user.';
COMMENT ON COLUMN memberships.role IS
    'viewer reads, operator also runs and pauses, admin also changes, owner also manages people.';
COMMENT ON COLUMN memberships.created_at IS 'Time the user joined, by the database clock.';

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
    deleted_at   timestamptz,
    CONSTRAINT projects_pkey PRIMARY KEY (tenant_id, id),
    CONSTRAINT projects_tenant_fkey FOREIGN KEY (tenant_id)
        REFERENCES tenants (id) ON DELETE CASCADE,
    CONSTRAINT projects_name_check CHECK (name ~ '^[a-z0-9][a-z0-9._-]{0,99}$'),
    CONSTRAINT projects_pause_reason_check CHECK (pause_reason IS NULL OR is_paused),
    CONSTRAINT projects_deleted_is_not_paused_check CHECK (deleted_at IS NULL OR NOT is_paused)
);
CREATE INDEX projects_paused_idx ON projects (tenant_id, id) WHERE is_paused;
CREATE UNIQUE INDEX projects_name_key ON projects (tenant_id, name) WHERE deleted_at IS NULL;
COMMENT ON TABLE projects IS
    'Groups of jobs within a tenant. Deleting a project deletes its jobs; their history stays.';
COMMENT ON INDEX projects_paused_idx IS 'Paused projects; every claim checks whether one exists.';
COMMENT ON COLUMN projects.tenant_id IS 'Owning tenant.';
COMMENT ON COLUMN projects.id IS 'Random identifier.';
COMMENT ON COLUMN projects.name IS
    'Stable name, unique in the tenant among projects that are not deleted.';
COMMENT ON COLUMN projects.display_name IS 'Display name.';
COMMENT ON COLUMN projects.description IS 'Free text.';
COMMENT ON COLUMN projects.is_paused IS
    'Kill switch: while true, no job of the project is dispatched or claimed.';
COMMENT ON COLUMN projects.pause_reason IS 'Reason of the pause, for people; NULL unless paused.';
COMMENT ON COLUMN projects.created_at IS 'Creation time, by the database clock.';
COMMENT ON COLUMN projects.updated_at IS 'Last change, by the database clock.';
COMMENT ON COLUMN projects.deleted_at IS 'Deletion time; NULL while the project exists.';

-- Scopes have no CHECK of their values: during an upgrade the newer release may write one that the
-- older release does not know and grants nothing for.
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
    hash_key_id  text,
    created_src  text        NOT NULL DEFAULT 'sql',
    revoked_src  text,
    CONSTRAINT api_keys_pkey PRIMARY KEY (tenant_id, id),
    CONSTRAINT api_keys_tenant_fkey FOREIGN KEY (tenant_id)
        REFERENCES tenants (id) ON DELETE CASCADE,
    CONSTRAINT api_keys_membership_fkey FOREIGN KEY (tenant_id, user_id)
        REFERENCES memberships (tenant_id, user_id) ON DELETE CASCADE,
    CONSTRAINT api_keys_key_prefix_key UNIQUE (key_prefix),
    CONSTRAINT api_keys_name_check CHECK (length(name) BETWEEN 1 AND 200),
    CONSTRAINT api_keys_key_hash_check CHECK (length(key_hash) = 32),
    CONSTRAINT api_keys_expires_after_created_check
        CHECK (expires_at IS NULL OR expires_at > created_at),
    CONSTRAINT api_keys_revoked_src_check CHECK (revoked_src IS NULL OR revoked_at IS NOT NULL),
    CONSTRAINT api_keys_key_prefix_check CHECK (key_prefix ~ '^sched_[a-z0-9]{1,16}_[a-z2-7]{16}$'),
    CONSTRAINT api_keys_key_of_tenant_has_scopes_check
        CHECK (user_id IS NOT NULL OR cardinality(scopes) > 0)
);
COMMENT ON TABLE api_keys IS
    'Keys for programs that act in one tenant. The secret itself is never stored.';
COMMENT ON COLUMN api_keys.tenant_id IS 'The one tenant the key acts in.';
COMMENT ON COLUMN api_keys.id IS 'Random identifier.';
COMMENT ON COLUMN api_keys.user_id IS
    'Member that owns the key and limits its rights; NULL for a key of the tenant.';
COMMENT ON COLUMN api_keys.name IS 'Purpose of the key, for people.';
COMMENT ON COLUMN api_keys.key_prefix IS 'Public part of the key, for lookups and logs.';
COMMENT ON COLUMN api_keys.key_hash IS 'Keyed 256-bit hash of the whole key.';
COMMENT ON COLUMN api_keys.scopes IS
    'Permissions, within those of the owner; empty means all of them. A tenant key may do '
    'exactly its scopes.';
COMMENT ON COLUMN api_keys.expires_at IS 'The key is rejected after this time; NULL never expires.';
COMMENT ON COLUMN api_keys.revoked_at IS 'Revocation time; NULL while the key is valid.';
COMMENT ON COLUMN api_keys.last_used_at IS
    'Last use, coarse, so that a call does not cost a write.';
COMMENT ON COLUMN api_keys.created_at IS 'Creation time, by the database clock.';
COMMENT ON COLUMN api_keys.hash_key_id IS
    'Key of the key ring that computed the hash; NULL if there was no ring.';
COMMENT ON COLUMN api_keys.created_src IS 'E-mail address, key or component that created it.';
COMMENT ON COLUMN api_keys.revoked_src IS
    'E-mail address, key or component that revoked it; NULL while it is valid.';

-- A session is found by id before its tenant is known, hence the key on the id alone.
CREATE TABLE sessions (
    tenant_id    uuid        NOT NULL,
    id           uuid        NOT NULL,
    user_id      uuid        NOT NULL,
    token_hash   bytea       NOT NULL,
    hash_key_id  text,
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    last_seen_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    idle_until   timestamptz NOT NULL,
    expires_at   timestamptz NOT NULL,
    user_agent   text,
    address      text,
    CONSTRAINT sessions_pkey PRIMARY KEY (tenant_id, id),
    CONSTRAINT sessions_membership_fkey FOREIGN KEY (tenant_id, user_id)
        REFERENCES memberships (tenant_id, user_id) ON DELETE CASCADE,
    CONSTRAINT sessions_id_key UNIQUE (id),
    CONSTRAINT sessions_token_hash_check CHECK (length(token_hash) = 32),
    CONSTRAINT sessions_user_agent_check CHECK (length(user_agent) <= 200),
    CONSTRAINT sessions_address_check CHECK (length(address) <= 45),
    CONSTRAINT sessions_idle_before_end_check CHECK (idle_until <= expires_at)
);
CREATE INDEX sessions_user_id_idx ON sessions (user_id, tenant_id);
CREATE INDEX sessions_idle_until_idx ON sessions (idle_until);
COMMENT ON TABLE sessions IS
    'Browser sessions of users, each in one tenant. A sign-out deletes the row; the audit log '
    'keeps it.';
COMMENT ON INDEX sessions_idle_until_idx IS 'Expired sessions.';
COMMENT ON INDEX sessions_user_id_idx IS 'Sessions that end with a user.';
COMMENT ON COLUMN sessions.tenant_id IS 'The one tenant the session acts in.';
COMMENT ON COLUMN sessions.id IS 'Random identifier for lookups; not the token of the browser.';
COMMENT ON COLUMN sessions.user_id IS 'The user. The membership decides the rights.';
COMMENT ON COLUMN sessions.token_hash IS
    'Keyed 256-bit hash of the token that the browser presents.';
COMMENT ON COLUMN sessions.hash_key_id IS
    'Key of the key ring that computed the hash; NULL if there was no ring.';
COMMENT ON COLUMN sessions.created_at IS 'Sign-in time, by the database clock.';
COMMENT ON COLUMN sessions.last_seen_at IS
    'Last use, coarse, so that a request does not cost a write.';
COMMENT ON COLUMN sessions.idle_until IS
    'The session ends at this time unless it is used; use moves it, up to expires_at.';
COMMENT ON COLUMN sessions.expires_at IS 'The session ends at this time regardless of use.';
COMMENT ON COLUMN sessions.user_agent IS
    'Beginning of the User-Agent header, shown to the user; NULL if absent.';
COMMENT ON COLUMN sessions.address IS
    'Client address at sign-in, shown to the user; NULL if unknown.';

CREATE TABLE sign_in_failures (
    subject       bytea       NOT NULL,
    is_address    boolean     NOT NULL,
    failures      integer     NOT NULL DEFAULT 0,
    last_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    blocked_until timestamptz,
    CONSTRAINT sign_in_failures_pkey PRIMARY KEY (subject),
    CONSTRAINT sign_in_failures_subject_check CHECK (length(subject) = 32),
    CONSTRAINT sign_in_failures_failures_check CHECK (failures >= 0)
) WITH (fillfactor = 70);
CREATE INDEX sign_in_failures_last_at_idx ON sign_in_failures (last_at);
COMMENT ON TABLE sign_in_failures IS
    'Failed sign-ins by account and by client address, so that all API processes slow down '
    'guessing.';
COMMENT ON INDEX sign_in_failures_last_at_idx IS 'Rows to delete by age.';
COMMENT ON COLUMN sign_in_failures.subject IS
    'SHA-256 of the account name, known or not, or of the client address. Hashed because people '
    'type passwords into the wrong field.';
COMMENT ON COLUMN sign_in_failures.is_address IS
    'Whether the subject is a client address, which many people may share.';
COMMENT ON COLUMN sign_in_failures.failures IS
    'Attempts since the last success or the last day without one, running attempts included.';
COMMENT ON COLUMN sign_in_failures.last_at IS
    'Last admitted attempt; for an address up to 15 minutes earlier, from which forgetting counts.';
COMMENT ON COLUMN sign_in_failures.blocked_until IS
    'Attempts before this time are rejected without a check; NULL after few failures.';

-- A new password, or the deactivation of a user, ends all sessions of the user in every tenant.
CREATE FUNCTION end_sessions_of_user() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    DELETE FROM public.sessions s WHERE s.user_id = NEW.id;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION end_sessions_of_user() IS
    'Ends the sessions of a user after a password change or deactivation.';
CREATE TRIGGER users_end_sessions AFTER UPDATE OF password_hash, is_active ON users
    FOR EACH ROW
    WHEN (OLD.password_hash IS DISTINCT FROM NEW.password_hash OR NOT NEW.is_active)
    EXECUTE FUNCTION end_sessions_of_user();
REVOKE EXECUTE ON FUNCTION end_sessions_of_user() FROM PUBLIC;
