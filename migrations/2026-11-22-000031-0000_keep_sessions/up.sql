-- Sessions of people who signed in with a password (API-4), and what holds back who guesses passwords.
--
-- Two new tables only. Rows of both are few and go by themselves: whoever signs in takes away some that are over.

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
    CONSTRAINT sessions_membership_fkey FOREIGN KEY (tenant_id, user_id) REFERENCES memberships (tenant_id, user_id) ON DELETE CASCADE,
    -- It is looked for before a tenant is known.
    CONSTRAINT sessions_id_key UNIQUE (id),
    CONSTRAINT sessions_token_hash_check CHECK (length(token_hash) = 32),
    CONSTRAINT sessions_user_agent_check CHECK (length(user_agent) <= 200),
    CONSTRAINT sessions_address_check CHECK (length(address) <= 45),
    CONSTRAINT sessions_idle_before_end_check CHECK (idle_until <= expires_at)
);
CREATE INDEX sessions_user_id_idx ON sessions (user_id, tenant_id);
CREATE INDEX sessions_idle_until_idx ON sessions (idle_until);

COMMENT ON TABLE  sessions              IS 'People who are signed in, each in one tenant. Rows of those who signed out are gone; the audit log remembers.';
COMMENT ON COLUMN sessions.tenant_id    IS 'The one tenant this session acts in.';
COMMENT ON COLUMN sessions.id           IS 'Random identifier, by which it is found. Not what a browser has to show.';
COMMENT ON COLUMN sessions.user_id      IS 'Who signed in. What they may do is their membership.';
COMMENT ON COLUMN sessions.token_hash   IS 'Keyed 256-bit hash of what the browser has to show.';
COMMENT ON COLUMN sessions.hash_key_id  IS 'Key of the key ring that the hash was made with; NULL when there was no ring.';
COMMENT ON COLUMN sessions.created_at   IS 'When they signed in, by the database clock.';
COMMENT ON COLUMN sessions.last_seen_at IS 'When they were last here, coarse, so that a request does not cost a write.';
COMMENT ON COLUMN sessions.idle_until   IS 'After this instant it is over; put off while it is used, as far as expires_at.';
COMMENT ON COLUMN sessions.expires_at   IS 'After this instant it is over however much it is used.';
COMMENT ON COLUMN sessions.user_agent   IS 'The beginning of what the browser says that it is, shown to its user; NULL when it says nothing.';
COMMENT ON COLUMN sessions.address      IS 'Where they signed in from, shown to its user; NULL when that is not known.';
COMMENT ON INDEX  sessions_user_id_idx  IS 'Finds what ends with a user.';
COMMENT ON INDEX  sessions_idle_until_idx IS 'Finds what is over.';

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

COMMENT ON TABLE  sign_in_failures               IS 'Attempts to sign in that did not succeed, by account and by address, so that all processes of the API hold back who guesses.';
COMMENT ON COLUMN sign_in_failures.subject       IS 'SHA-256 of the account, whether there is one or not, or of the network address. People type passwords where addresses belong.';
COMMENT ON COLUMN sign_in_failures.is_address    IS 'Whether it is a network address, from which many people may come.';
COMMENT ON COLUMN sign_in_failures.failures      IS 'Attempts since the last success or the last day without any; those under way count.';
COMMENT ON COLUMN sign_in_failures.last_at       IS 'Last attempt that was let through.';
COMMENT ON COLUMN sign_in_failures.blocked_until IS 'Attempts before this instant are refused unseen; NULL while there were few.';
COMMENT ON INDEX  sign_in_failures_last_at_idx   IS 'Finds what is to be forgotten.';

SELECT isolate_tenants('sessions'), isolate_tenants('sign_in_failures');
GRANT SELECT, INSERT, UPDATE, DELETE ON sessions, sign_in_failures TO sched_daemon;
-- What a browser has to show is hashed, and the hash is written and never read. Failures are reached through the doors alone.
GRANT SELECT (tenant_id, id, user_id, created_at, last_seen_at, idle_until, expires_at, user_agent, address),
    INSERT, DELETE, UPDATE (last_seen_at, idle_until) ON sessions TO sched_api;

-- A new password and the end of an account end every session of the user, whoever makes the change and in whatever tenant.
CREATE FUNCTION end_sessions_of_user() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    DELETE FROM public.sessions s WHERE s.user_id = NEW.id;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION end_sessions_of_user() IS 'Ends the sessions of a user whose password was changed or who may not sign in any more.';
CREATE TRIGGER users_end_sessions AFTER UPDATE OF password_hash, is_active ON users
    FOR EACH ROW WHEN (OLD.password_hash IS DISTINCT FROM NEW.password_hash OR NOT NEW.is_active)
    EXECUTE FUNCTION end_sessions_of_user();

-- The doors.
CREATE FUNCTION find_session(
    session uuid, OUT tenant_id uuid, OUT id uuid, OUT token_hash bytea, OUT hash_key_id text, OUT user_id uuid, OUT email text, OUT role text,
    OUT is_system_operator boolean, OUT is_active boolean, OUT is_over boolean, OUT is_to_be_touched boolean
) RETURNS SETOF record LANGUAGE sql STABLE STRICT SECURITY DEFINER ROWS 1 SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT s.tenant_id, s.id, s.token_hash, s.hash_key_id, s.user_id, u.email, m.role, u.is_system_operator, u.is_active,
           s.idle_until <= now(),
           s.last_seen_at < now() - interval '1 minute'
    FROM sessions s
    JOIN memberships m ON m.tenant_id = s.tenant_id AND m.user_id = s.user_id
    JOIN users u ON u.id = s.user_id
    WHERE s.id = find_session.session;
END;
COMMENT ON FUNCTION find_session(uuid) IS 'The session with an id, in whatever tenant, with all that decides what it may do.';

CREATE FUNCTION find_account(
    address text, OUT user_id uuid, OUT email text, OUT password_hash text, OUT is_active boolean, OUT is_system_operator boolean, OUT tenant_id uuid,
    OUT tenant_slug text, OUT role text
) RETURNS SETOF record LANGUAGE sql STABLE STRICT SECURITY DEFINER ROWS 1 SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT u.id, u.email, u.password_hash, u.is_active, u.is_system_operator, t.id, t.slug, m.role
    FROM users u
    LEFT JOIN memberships m ON m.user_id = u.id
    LEFT JOIN tenants t ON t.id = m.tenant_id
    WHERE lower(u.email) = lower(find_account.address)
    ORDER BY t.slug;
END;
COMMENT ON FUNCTION find_account(text) IS 'The user with an address, with the hash of their password and a row for each tenant they are in, for who checks a password.';

-- Counted before the password is looked at, so that many attempts at once count as many; one that succeeds is taken back.
CREATE FUNCTION admit_sign_in(account bytea, address bytea, OUT wait_seconds integer, OUT failures integer)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    present timestamptz;
BEGIN
    -- Accounts before addresses, in all that locks both.
    INSERT INTO public.sign_in_failures (subject, is_address) VALUES (account, false), (address, true) ON CONFLICT DO NOTHING;
    PERFORM FROM public.sign_in_failures f WHERE f.subject IN (account, address) ORDER BY f.is_address FOR UPDATE;
    present := clock_timestamp();
    SELECT coalesce(ceil(extract(epoch FROM max(f.blocked_until) - present)), 0) INTO wait_seconds
    FROM public.sign_in_failures f WHERE f.subject IN (account, address) AND f.blocked_until > present;
    IF wait_seconds = 0 THEN
        UPDATE public.sign_in_failures f
        SET failures = n.failures, last_at = present,
            blocked_until = CASE WHEN n.beyond >= 0 THEN present + make_interval(secs => least(900, 15 * power(2, least(n.beyond, 10)))) END
        FROM (SELECT o.subject, c.failures, c.failures - CASE WHEN o.is_address THEN 20 ELSE 5 END AS beyond
              FROM public.sign_in_failures o
              CROSS JOIN LATERAL (SELECT CASE WHEN o.last_at < present - interval '1 day' THEN 1 ELSE o.failures + 1 END AS failures) AS c
              WHERE o.subject IN (account, address)) AS n
        WHERE f.subject = n.subject;
    END IF;
    SELECT f.failures INTO failures FROM public.sign_in_failures f WHERE f.subject = account;
    -- More go than come.
    DELETE FROM public.sign_in_failures f USING (
        SELECT o.subject FROM public.sign_in_failures o
        WHERE o.last_at < present - interval '1 day' ORDER BY o.last_at LIMIT 10 FOR UPDATE SKIP LOCKED) AS old
    WHERE f.subject = old.subject;
END
$$;
COMMENT ON FUNCTION admit_sign_in(bytea, bytea) IS
    'Lets an attempt to sign in through, or says how many seconds it is too early: after 5 failures of an account, or 20 from an address, 15 s, doubled with each further one up to 15 min.';

CREATE FUNCTION forgive_sign_in(account bytea, address bytea) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    DELETE FROM public.sign_in_failures f WHERE f.subject = account;
    -- Its own attempt and no other: who has an account may still guess the passwords of others.
    UPDATE public.sign_in_failures f
    SET failures = greatest(f.failures - 1, 0), blocked_until = CASE WHEN f.failures > 20 THEN f.blocked_until END
    WHERE f.subject = address;
END
$$;
COMMENT ON FUNCTION forgive_sign_in(bytea, bytea) IS 'Takes back what an attempt to sign in was counted as, since the password was right.';

CREATE FUNCTION note_sign_in(account uuid, verified text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    -- Holds the user, so that a change of the password comes before this and is seen, or after it and ends the session.
    UPDATE public.users u SET last_login_at = clock_timestamp() WHERE u.id = account AND u.is_active AND u.password_hash = verified;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    DELETE FROM public.sessions s USING (
        SELECT o.id FROM public.sessions o WHERE o.idle_until <= now() ORDER BY o.idle_until LIMIT 100 FOR UPDATE SKIP LOCKED) AS old
    WHERE s.id = old.id;
    RETURN true;
END
$$;
COMMENT ON FUNCTION note_sign_in(uuid, text) IS
    'Notes that a user signs in, if the hash of the password that was verified is still theirs; removes some sessions that are over.';

CREATE FUNCTION change_own_password(account uuid, verified text, hash text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    UPDATE public.users u SET password_hash = change_own_password.hash, updated_at = clock_timestamp()
    WHERE u.id = account AND u.is_active AND u.password_hash = verified
      AND EXISTS (SELECT FROM public.memberships m
                  WHERE m.user_id = u.id AND m.tenant_id = NULLIF(current_setting('sched.tenant', true), '')::uuid);
    RETURN FOUND;
END
$$;
COMMENT ON FUNCTION change_own_password(uuid, text, text) IS
    'Gives a member of the tenant of the transaction another password, if the hash of the one that was verified is still theirs.';

REVOKE EXECUTE ON FUNCTION find_session(uuid), find_account(text), admit_sign_in(bytea, bytea), forgive_sign_in(bytea, bytea),
    note_sign_in(uuid, text), change_own_password(uuid, text, text), end_sessions_of_user() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION find_session(uuid), find_account(text), admit_sign_in(bytea, bytea), forgive_sign_in(bytea, bytea),
    note_sign_in(uuid, text), change_own_password(uuid, text, text) TO sched_api, sched_daemon;
