-- A door: who operates the installation deletes a tenant, and sees no row of it for that. Its definitions go with it, and what was dispatched
-- of jobs that were deleted. Its history, its events and its entries in the audit log stay as long as those of others, and nobody reads them but
-- by SQL. What has jobs, or work that is not over, is not deleted, nor what has so much history that one transaction would take long.
CREATE FUNCTION delete_tenant(of_tenant uuid, most_dispatches bigint) RETURNS text
    LANGUAGE plpgsql STRICT SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF coalesce(current_setting('sched.system', true), '') <> 'on' THEN
        RAISE insufficient_privilege USING MESSAGE = 'only who operates the installation deletes tenants';
    END IF;
    -- Whoever makes something of the tenant holds its key until the commit, and nobody does after this.
    PERFORM FROM public.tenants t WHERE t.id = of_tenant FOR UPDATE;
    IF EXISTS (SELECT FROM public.scheduled_jobs j WHERE j.tenant_id = of_tenant AND j.deleted_at IS NULL) THEN
        RETURN 'has_jobs';
    END IF;
    IF EXISTS (SELECT FROM public.scheduled_jobs j WHERE j.tenant_id = of_tenant AND j.active_dispatches > 0) THEN
        RETURN 'has_work';
    END IF;
    IF (SELECT count(*) FROM (SELECT FROM public.job_dispatch d WHERE d.tenant_id = of_tenant LIMIT most_dispatches + 1) AS d) > most_dispatches THEN
        RETURN 'has_history';
    END IF;
    DELETE FROM public.tenants t WHERE t.id = of_tenant;
    RETURN 'deleted';
END $$;
COMMENT ON FUNCTION delete_tenant(uuid, bigint) IS 'Deletes a tenant without jobs and work, for who operates the installation; says whether it did, or what is in the way.';
REVOKE EXECUTE ON FUNCTION delete_tenant(uuid, bigint) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION delete_tenant(uuid, bigint) TO sched_api, sched_daemon;
