-- Sign-in and authentication. These functions run as their owner, because they read before a tenant
-- is known, or across tenants. Each takes the public part of one item and returns only the fields
-- that decide about it; none lists anything.

CREATE FUNCTION find_api_key(
    prefix text, OUT tenant_id uuid, OUT tenant_slug text, OUT id uuid, OUT key_hash bytea,
    OUT hash_key_id text, OUT scopes text[], OUT user_id uuid, OUT email text, OUT role text,
    OUT is_system_operator boolean, OUT is_active boolean, OUT expires_at timestamptz,
    OUT is_revoked boolean, OUT is_expired boolean, OUT is_to_be_touched boolean
) RETURNS SETOF record LANGUAGE sql STABLE STRICT SECURITY DEFINER ROWS 1
    SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT k.tenant_id, t.slug, k.id, k.key_hash, k.hash_key_id, k.scopes,
           k.user_id, u.email, m.role, u.is_system_operator, u.is_active, k.expires_at,
           k.revoked_at IS NOT NULL,
           coalesce(k.expires_at <= now(), false),
           coalesce(k.last_used_at < now() - interval '1 minute', true)
    FROM api_keys k
    JOIN tenants t ON t.id = k.tenant_id
    LEFT JOIN memberships m ON m.tenant_id = k.tenant_id AND m.user_id = k.user_id
    LEFT JOIN users u ON u.id = m.user_id
    WHERE k.key_prefix = find_api_key.prefix;
END;
COMMENT ON FUNCTION find_api_key(text) IS
    'Returns the key with this prefix, in any tenant, with everything that decides its rights.';

CREATE FUNCTION find_member(
    address text, slug text, OUT tenant_id uuid, OUT user_id uuid, OUT email text, OUT role text,
    OUT is_system_operator boolean, OUT is_active boolean
) RETURNS SETOF record LANGUAGE sql STABLE STRICT SECURITY DEFINER ROWS 1
    SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT m.tenant_id, u.id, u.email, m.role, u.is_system_operator, u.is_active
    FROM users u
    JOIN memberships m ON m.user_id = u.id
    JOIN tenants t ON t.id = m.tenant_id
    WHERE lower(u.email) = lower(find_member.address) AND t.slug = find_member.slug;
END;
COMMENT ON FUNCTION find_member(text, text) IS
    'Returns the member with this address in this tenant, with everything that decides its rights.';

CREATE FUNCTION find_user(address text) RETURNS SETOF uuid
    LANGUAGE sql STABLE STRICT SECURITY DEFINER ROWS 1 SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT u.id FROM users u WHERE lower(u.email) = lower(find_user.address);
END;
COMMENT ON FUNCTION find_user(text) IS
    'Returns the user with this address, to become a member of a tenant.';

CREATE FUNCTION find_session(
    session uuid, OUT tenant_id uuid, OUT id uuid, OUT token_hash bytea, OUT hash_key_id text,
    OUT user_id uuid, OUT email text, OUT role text, OUT is_system_operator boolean,
    OUT is_active boolean, OUT is_over boolean, OUT is_to_be_touched boolean
) RETURNS SETOF record LANGUAGE sql STABLE STRICT SECURITY DEFINER ROWS 1
    SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT s.tenant_id, s.id, s.token_hash, s.hash_key_id, s.user_id, u.email, m.role,
           u.is_system_operator, u.is_active,
           s.idle_until <= now(),
           s.last_seen_at < now() - interval '1 minute'
    FROM sessions s
    JOIN memberships m ON m.tenant_id = s.tenant_id AND m.user_id = s.user_id
    JOIN users u ON u.id = s.user_id
    WHERE s.id = find_session.session;
END;
COMMENT ON FUNCTION find_session(uuid) IS
    'Returns the session with this id, in any tenant, with everything that decides its rights.';

CREATE FUNCTION find_account(
    address text, OUT user_id uuid, OUT email text, OUT password_hash text, OUT is_active boolean,
    OUT is_system_operator boolean, OUT tenant_id uuid, OUT tenant_slug text, OUT role text
) RETURNS SETOF record LANGUAGE sql STABLE STRICT SECURITY DEFINER ROWS 1
    SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT u.id, u.email, u.password_hash, u.is_active, u.is_system_operator, t.id, t.slug, m.role
    FROM users u
    LEFT JOIN memberships m ON m.user_id = u.id
    LEFT JOIN tenants t ON t.id = m.tenant_id
    WHERE lower(u.email) = lower(find_account.address)
    ORDER BY t.slug;
END;
COMMENT ON FUNCTION find_account(text) IS
    'Returns the user with this address and the password hash, one row per tenant.';

-- The attempt is counted before the password is checked, so that concurrent attempts all count. The
-- API takes a successful one back (forgive_sign_in).
CREATE FUNCTION admit_sign_in(
    account bytea, address bytea, OUT wait_seconds integer, OUT failures integer)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    present timestamptz;
BEGIN
    -- Lock order: accounts before addresses, in every function that locks both.
    INSERT INTO public.sign_in_failures (subject, is_address)
    VALUES (account, false), (address, true) ON CONFLICT DO NOTHING;
    PERFORM FROM public.sign_in_failures f
    WHERE f.subject IN (account, address) ORDER BY f.is_address FOR UPDATE;
    present := clock_timestamp();
    SELECT coalesce(ceil(extract(epoch FROM max(f.blocked_until) - present)), 0) INTO wait_seconds
    FROM public.sign_in_failures f
    WHERE f.subject IN (account, address) AND f.blocked_until > present;
    IF wait_seconds = 0 THEN
        UPDATE public.sign_in_failures f
        SET failures = n.failures,
            -- The rest of a quarter of an hour counts towards the next one.
            last_at = CASE WHEN f.is_address
                THEN present - make_interval(
                    secs => mod(extract(epoch FROM present - f.last_at), 900)::float8)
                ELSE present END,
            blocked_until = CASE WHEN n.beyond >= 0
                THEN present + make_interval(
                    secs => least(900, 15 * power(2, least(n.beyond, 10)))) END
        FROM (SELECT o.subject, c.failures,
                     c.failures - CASE WHEN o.is_address THEN 20 ELSE 5 END AS beyond
              FROM public.sign_in_failures o
              CROSS JOIN LATERAL (
                  SELECT CASE WHEN o.last_at < present - interval '1 day' THEN 1
                         -- People behind a shared address mistype, while colleagues sign in all
                         -- day: one failure is forgotten per 15 minutes.
                         WHEN o.is_address THEN greatest(
                             o.failures
                             - floor(extract(epoch FROM present - o.last_at) / 900)::integer, 0) + 1
                         ELSE o.failures + 1 END AS failures) AS c
              WHERE o.subject IN (account, address)) AS n
        WHERE f.subject = n.subject;
    END IF;
    SELECT f.failures INTO failures FROM public.sign_in_failures f WHERE f.subject = account;
    -- A call deletes more rows than it inserts.
    DELETE FROM public.sign_in_failures f USING (
        SELECT o.subject FROM public.sign_in_failures o
        WHERE o.last_at < present - interval '1 day'
        ORDER BY o.last_at LIMIT 10 FOR UPDATE SKIP LOCKED) AS old
    WHERE f.subject = old.subject;
END
$$;
COMMENT ON FUNCTION admit_sign_in(bytea, bytea) IS
    'Admits a sign-in attempt, or returns the seconds to wait: after 5 failures of an account or '
    '20 of an address 15 s, doubled with each further one up to 15 min. An address forgets one '
    'failure per 15 min.';

CREATE FUNCTION forgive_sign_in(account bytea, address bytea) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    DELETE FROM public.sign_in_failures f WHERE f.subject = account;
    -- Only the caller's own attempt: the owner of one account may still guess passwords of other
    -- accounts. The attempt was admitted, so only it can have blocked the address since; the next
    -- failure blocks it again.
    UPDATE public.sign_in_failures f
    SET failures = greatest(f.failures - 1, 0), blocked_until = NULL
    WHERE f.subject = address;
END
$$;
COMMENT ON FUNCTION forgive_sign_in(bytea, bytea) IS
    'Takes back the count of a sign-in attempt whose password was right.';

CREATE FUNCTION note_sign_in(account uuid, verified text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    -- Locks the user row: a concurrent password change commits either before this and is seen, or
    -- after it and ends the session.
    UPDATE public.users u SET last_login_at = clock_timestamp()
    WHERE u.id = account AND u.is_active AND u.password_hash = verified;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    DELETE FROM public.sessions s USING (
        SELECT o.id FROM public.sessions o WHERE o.idle_until <= now()
        ORDER BY o.idle_until LIMIT 100 FOR UPDATE SKIP LOCKED) AS old
    WHERE s.id = old.id;
    RETURN true;
END
$$;
COMMENT ON FUNCTION note_sign_in(uuid, text) IS
    'Records a sign-in if the verified hash is still current, and deletes some expired sessions.';

CREATE FUNCTION change_own_password(account uuid, verified text, hash text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    UPDATE public.users u
    SET password_hash = change_own_password.hash, updated_at = clock_timestamp()
    WHERE u.id = account AND u.is_active AND u.password_hash = verified
      AND EXISTS (SELECT FROM public.memberships m
                  WHERE m.user_id = u.id
                    AND m.tenant_id = NULLIF(current_setting('sched.tenant', true), '')::uuid);
    RETURN FOUND;
END
$$;
COMMENT ON FUNCTION change_own_password(uuid, text, text) IS
    'Sets the password of a member of the current tenant, if the verified hash is still current.';

REVOKE EXECUTE ON FUNCTION find_api_key(text), find_member(text, text), find_user(text),
    find_session(uuid), find_account(text), admit_sign_in(bytea, bytea),
    forgive_sign_in(bytea, bytea), note_sign_in(uuid, text),
    change_own_password(uuid, text, text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION find_api_key(text), find_member(text, text), find_user(text),
    find_session(uuid), find_account(text), admit_sign_in(bytea, bytea),
    forgive_sign_in(bytea, bytea), note_sign_in(uuid, text),
    change_own_password(uuid, text, text) TO sched_api, sched_daemon;
