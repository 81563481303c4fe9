CREATE OR REPLACE FUNCTION admit_sign_in(account bytea, address bytea, OUT wait_seconds integer, OUT failures integer)
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

CREATE OR REPLACE FUNCTION forgive_sign_in(account bytea, address bytea) RETURNS void
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

CREATE OR REPLACE FUNCTION installation_health(OUT oldest_due timestamptz, OUT quarantined bigint)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT
        -- The first entry of scheduled_jobs_due_idx; a job that is held back stands where it will be looked at.
        (SELECT d.due FROM (SELECT greatest(j.next_run_at, j.dispatch_lock_until) AS due FROM scheduled_jobs j
                            WHERE j.next_run_at IS NOT NULL
                            ORDER BY greatest(j.next_run_at, j.dispatch_lock_until), j.burst_order LIMIT 1) AS d
         WHERE d.due <= clock_timestamp()),
        (SELECT count(*) FROM scheduled_jobs j
         WHERE NOT j.is_enabled AND j.deleted_at IS NULL AND j.disabled_reason IS NOT NULL AND j.last_fire_at IS NOT NULL);
END;

COMMENT ON FUNCTION installation_health() IS 'Since when the job is due that is due longest, if any is, and how many jobs the scheduler has disabled by itself; of all tenants.';
COMMENT ON INDEX scheduled_jobs_quarantined_idx IS NULL;
COMMENT ON COLUMN sign_in_failures.last_at IS 'Last attempt that was let through.';
