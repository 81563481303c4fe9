//! Ways to break the product from below, each with the expected finding of the checker: a checker
//! that never fails proves nothing.
//!
//! A mutant is a trigger or an index that undoes the product's work, as a bug would. The programs
//! are unchanged. (`scripts/break-it` removes guards from the programs.)

#[derive(Debug)]
pub(crate) struct Mutant {
    pub(crate) name: &'static str,
    pub(crate) description: &'static str,
    /// Executed before the faults begin.
    pub(crate) install: &'static str,
    /// Executed after a sixth of the run.
    pub(crate) then: &'static str,
    /// Prefix of the finding that the checker must report.
    pub(crate) finding: &'static str,
}

pub(crate) fn named(name: &str) -> Option<&'static Mutant> {
    MUTANTS.iter().find(|mutant| mutant.name == name)
}

pub(crate) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "unique_key",
        description: "the unique key of fires is dropped, and cursors are set back",
        install: "ALTER TABLE job_dispatch DROP CONSTRAINT job_dispatch_job_id_scheduled_for_key;
                  CREATE UNIQUE INDEX refuses_nothing ON job_dispatch (job_id, scheduled_for, trigger_id)",
        then: "UPDATE scheduled_jobs j SET next_run_at = d.at, settled_until = d.at - interval '1 second'
               FROM (SELECT job_id, max(scheduled_for) AS at FROM job_dispatch WHERE trigger_id IS NULL GROUP BY job_id) d
               WHERE d.job_id = j.id AND j.name LIKE 'steady-%' AND j.overlap_policy = 'allow'",
        finding: "3: no fire time twice",
    },
    Mutant {
        name: "compare_and_set",
        description: "each move of a cursor omits a fire time",
        install: "CREATE FUNCTION witness.pass_over() RETURNS trigger LANGUAGE plpgsql AS $$
                  BEGIN NEW.next_run_at := NEW.next_run_at + make_interval(secs => (NEW.schedule_config->>'seconds')::double precision); RETURN NEW; END $$;
                  CREATE TRIGGER mutant BEFORE UPDATE OF next_run_at ON scheduled_jobs FOR EACH ROW
                  WHEN (NEW.name = 'steady-3' AND NEW.next_run_at > OLD.next_run_at) EXECUTE FUNCTION witness.pass_over()",
        then: "",
        finding: "10: next_run_at is the first fire time",
    },
    Mutant {
        name: "ledger",
        description: "skips are not recorded",
        install: "CREATE FUNCTION witness.forget() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
                  CREATE TRIGGER mutant BEFORE INSERT ON skipped_fires FOR EACH ROW EXECUTE FUNCTION witness.forget()",
        then: "",
        finding: "2: every fire time of the oracle",
    },
    Mutant {
        name: "reason",
        description: "skips are recorded with a wrong reason",
        install: "CREATE FUNCTION witness.pretext() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.reason := 'paused_job'; RETURN NEW; END $$;
                  CREATE TRIGGER mutant BEFORE INSERT ON skipped_fires FOR EACH ROW WHEN (NEW.reason = 'overlap') EXECUTE FUNCTION witness.pretext()",
        then: "",
        finding: "2: the reason of every skip was true",
    },
    Mutant {
        name: "lateness",
        description: "due fire times wait for seventeen seconds",
        install: "",
        then: "UPDATE scheduled_jobs SET dispatch_lock_until = now() + interval '17 seconds' WHERE name LIKE 'steady-%'",
        finding: "2: fire times are handled in time",
    },
    Mutant {
        name: "drain",
        description: "requests to drain a worker are lost",
        install: "CREATE FUNCTION witness.never_told() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.drain_requested_at := NULL; RETURN NEW; END $$;
                  CREATE TRIGGER mutant BEFORE UPDATE OF drain_requested_at ON worker_registration FOR EACH ROW EXECUTE FUNCTION witness.never_told()",
        then: "",
        finding: "8: a draining worker claims nothing",
    },
    Mutant {
        name: "event",
        description: "some events are ordered before events that were sent already",
        install: "CREATE FUNCTION witness.too_early() RETURNS trigger LANGUAGE plpgsql AS $$
                  BEGIN NEW.transaction_id := (NEW.transaction_id::text::bigint - 500)::text::xid8; RETURN NEW; END $$;
                  CREATE TRIGGER mutant BEFORE INSERT ON run_end_batches FOR EACH ROW WHEN (NEW.id / 65536 % 20 = 0)
                  EXECUTE FUNCTION witness.too_early()",
        then: "",
        finding: "events: a follower of the stream",
    },
    Mutant {
        name: "time",
        description: "dispatches are recorded a millisecond after their fire time",
        install: "CREATE FUNCTION witness.late() RETURNS trigger LANGUAGE plpgsql AS $$
                  BEGIN NEW.scheduled_for := NEW.scheduled_for + interval '1 millisecond'; RETURN NEW; END $$;
                  CREATE TRIGGER mutant BEFORE INSERT ON job_dispatch FOR EACH ROW WHEN (NEW.trigger_id IS NULL) EXECUTE FUNCTION witness.late()",
        then: "",
        finding: "2: every dispatch of a schedule has a fire time",
    },
    Mutant {
        name: "backoff",
        description: "failed runs are retried at once",
        install: "CREATE FUNCTION witness.at_once() RETURNS trigger LANGUAGE plpgsql AS $$
                  BEGIN NEW.available_at := clock_timestamp(); NEW.claimable_at := NEW.available_at; RETURN NEW; END $$;
                  CREATE TRIGGER mutant BEFORE UPDATE ON job_dispatch FOR EACH ROW
                  WHEN (OLD.status = 'IN_PROGRESS' AND NEW.status = 'PENDING') EXECUTE FUNCTION witness.at_once()",
        then: "",
        finding: "9: no retry before the end of its backoff",
    },
    Mutant {
        name: "attempts",
        description: "failures are not counted, so that retries do not end",
        install: "CREATE FUNCTION witness.never_counted() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.retry_count := 0; RETURN NEW; END $$;
                  CREATE TRIGGER mutant BEFORE UPDATE OF retry_count ON job_dispatch FOR EACH ROW EXECUTE FUNCTION witness.never_counted()",
        then: "",
        finding: "9: never more attempts than the policy allows",
    },
    Mutant {
        name: "instances",
        description: "open dispatches are not counted, so that runs overlap",
        install: "CREATE FUNCTION witness.none_open() RETURNS trigger LANGUAGE plpgsql AS $$
                  BEGIN NEW.active_dispatches := 0; NEW.queued_dispatches := 0; RETURN NEW; END $$;
                  CREATE TRIGGER mutant BEFORE UPDATE ON scheduled_jobs FOR EACH ROW WHEN (NEW.name = 'crowded-0') EXECUTE FUNCTION witness.none_open()",
        then: "",
        finding: "5: max_instances is never exceeded",
    },
    Mutant {
        name: "count",
        description: "some batches of ends are never counted",
        install: "CREATE FUNCTION witness.forget() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
                  CREATE TRIGGER mutant BEFORE INSERT ON uncounted_ends FOR EACH ROW WHEN (NEW.batch_id / 65536 % 20 = 0)
                  EXECUTE FUNCTION witness.forget()",
        then: "",
        finding: "5: each batch of ends is counted exactly once",
    },
    Mutant {
        name: "opening",
        description: "runs of plain triggers are not counted as open",
        install: "CREATE FUNCTION witness.forget() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
                  CREATE TRIGGER mutant BEFORE INSERT ON uncounted_openings FOR EACH ROW EXECUTE FUNCTION witness.forget()",
        then: "",
        finding: "5: total_run_count is the number of runs",
    },
    Mutant {
        name: "loss",
        description: "losses of attempts are not reported as events",
        install: "CREATE FUNCTION witness.forget() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
                  CREATE TRIGGER mutant BEFORE INSERT ON events FOR EACH ROW WHEN (NEW.event_type = 'schedule_execution_lost')
                  EXECUTE FUNCTION witness.forget()",
        // Some attempts are lost.
        then: "UPDATE worker_registration SET status = 'OFFLINE', offline_since = now(), running = 0 WHERE status <> 'OFFLINE'",
        finding: "events: the stream has one loss",
    },
    Mutant {
        name: "dead_letter",
        description: "dead letters are not recorded",
        install: "CREATE FUNCTION witness.forget() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
                  CREATE TRIGGER mutant BEFORE INSERT ON dead_letters FOR EACH ROW EXECUTE FUNCTION witness.forget()",
        then: "",
        finding: "6: exactly the exhausted dispatches",
    },
    Mutant {
        name: "idempotency",
        description: "keys of triggers are not stored, so that a repeated trigger runs twice",
        install: "CREATE FUNCTION witness.no_key() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.idempotency_key := NULL; RETURN NEW; END $$;
                  CREATE TRIGGER mutant BEFORE INSERT ON job_dispatch FOR EACH ROW EXECUTE FUNCTION witness.no_key()",
        then: "",
        finding: "11: every accepted trigger is a dispatch",
    },
    Mutant {
        name: "acknowledged",
        description: "accepted triggers are lost, as after a restore of an older backup",
        install: "",
        then: "DELETE FROM dead_letters WHERE dispatch_id IN (SELECT id FROM job_dispatch WHERE triggered_by = 'api');
               DELETE FROM job_dispatch WHERE idempotency_key IS NOT NULL AND completed_at IS NOT NULL",
        finding: "11: every accepted trigger is a dispatch",
    },
    Mutant {
        name: "term",
        description: "terms are recorded as ended at their begin",
        install: "CREATE FUNCTION witness.short_term() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.ended_at := NEW.started_at; RETURN NEW; END $$;
                  CREATE TRIGGER mutant BEFORE UPDATE OF ended_at ON leader_terms FOR EACH ROW WHEN (NEW.ended_at IS NOT NULL)
                  EXECUTE FUNCTION witness.short_term()",
        then: "",
        finding: "1: no dispatch was committed after the end of its term",
    },
    Mutant {
        name: "final_state",
        description: "ended dispatches wait again",
        install: "",
        then: "UPDATE job_dispatch d SET status = 'PENDING', completed_at = NULL, available_at = now(), claimable_at = now()
               WHERE id IN (SELECT id FROM job_dispatch WHERE status = 'COMPLETED' ORDER BY completed_at DESC LIMIT 3)",
        finding: "6: every transition is legal",
    },
    Mutant {
        name: "tenant",
        description: "the key of one tenant acts in another",
        install: "",
        then: "UPDATE api_keys k SET tenant_id = m.tenant_id, user_id = m.user_id
               FROM memberships m JOIN tenants t ON t.id = m.tenant_id WHERE t.slug = 'default' AND k.name = 'chaos'",
        finding: "12: no answer contains data of another tenant",
    },
    Mutant {
        name: "effect",
        description: "unfinished attempts are recorded as completed",
        install: "CREATE FUNCTION witness.well_done() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                      NEW.status := 'COMPLETED'; NEW.error_message := NULL; NEW.error_class := NULL; RETURN NEW; END $$;
                  CREATE TRIGGER mutant BEFORE INSERT ON job_execution_log FOR EACH ROW WHEN (NEW.status = 'FAILED') EXECUTE FUNCTION witness.well_done()",
        then: "",
        finding: "effects: an attempt is COMPLETED without a complete effect",
    },
    Mutant {
        name: "quarantine",
        description: "a valid job is disabled when its cursor moves",
        install: "CREATE FUNCTION witness.disable() RETURNS trigger LANGUAGE plpgsql AS $$
                  BEGIN NEW.is_enabled := false; NEW.next_run_at := NULL; NEW.disabled_reason := 'x'; RETURN NEW; END $$;
                  CREATE TRIGGER mutant BEFORE UPDATE OF next_run_at ON scheduled_jobs FOR EACH ROW
                  WHEN (NEW.name = 'steady-5' AND NEW.is_enabled) EXECUTE FUNCTION witness.disable()",
        then: "",
        finding: "10: a job is disabled only",
    },
    Mutant {
        name: "claim",
        description: "some claims name another dispatch than they take",
        install: "CREATE FUNCTION witness.misname() RETURNS trigger LANGUAGE plpgsql AS $$
                  BEGIN NEW.dispatch_ids[1] := gen_random_uuid(); RETURN NEW; END $$;
                  CREATE TRIGGER mutant BEFORE INSERT ON worker_claims FOR EACH ROW WHEN (NEW.id % 50 = 0) EXECUTE FUNCTION witness.misname()",
        then: "",
        finding: "8: every running dispatch is named by",
    },
    Mutant {
        name: "dependents",
        description: "ends of a job do not trigger its dependent jobs",
        install: "CREATE FUNCTION witness.never_told() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                      IF EXISTS (SELECT FROM scheduled_jobs j WHERE j.id = NEW.job_id AND j.name = 'steady-0') THEN RETURN NULL; END IF;
                      RETURN NEW; END $$;
                  CREATE TRIGGER mutant BEFORE INSERT ON job_ends FOR EACH ROW EXECUTE FUNCTION witness.never_told()",
        then: "",
        finding: "2: each end has exactly one dispatch",
    },
    Mutant {
        name: "lost",
        description: "running workers are marked as dead, and their attempts as lost",
        install: "",
        then: "UPDATE worker_registration SET status = 'OFFLINE', offline_since = now(), running = 0 WHERE status <> 'OFFLINE'",
        finding: "8: attempts are lost only by a fault",
    },
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn mutants_have_distinct_names_and_statements() {
        let names: BTreeSet<&str> = MUTANTS.iter().map(|mutant| mutant.name).collect();
        assert_eq!(names.len(), MUTANTS.len());
        assert!(MUTANTS.iter().all(|mutant| !mutant.install.is_empty() || !mutant.then.is_empty()));
    }
}
