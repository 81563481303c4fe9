SELECT EXISTS (SELECT 1 FROM job_dispatch
               WHERE expires_at <= now() AND expires_at IS NOT NULL AND claimable_at IS NOT NULL AND attempt = unstarted_count)
