//! The run that a dependent run follows, read just before the attempt.
//!
//! Only runs that a dependency caused, and their retries, need the query. If the database is
//! unavailable, the attempt is released.

use sched_model::domain::run_state::Trigger;

use crate::backend::{Backend, Claimed};
use crate::handlers::{Report, Upstream};

pub(crate) fn may_follow_a_run(claimed: &Claimed) -> bool {
    matches!(claimed.triggered_by, Trigger::Dependency | Trigger::Retry)
}

/// The error is the report of an attempt that cannot run.
pub(crate) async fn load(backend: &Backend, claimed: &Claimed) -> Result<Option<Box<Upstream>>, Box<Report>> {
    if !may_follow_a_run(claimed) {
        return Ok(None);
    }
    let found = backend.upstream(claimed.tenant_id, claimed.dispatch_id).await.map_err(|error| {
        tracing::warn!(
            job.name = claimed.job.name,
            error = error.with_causes(),
            "failed to read the run that an attempt follows"
        );
        Box::new(Report::untried(&format!("failed to read the run that it follows: {error}")))
    })?;
    Ok(found.map(|found| {
        Box::new(Upstream {
            run_id: found.run_id.0,
            job: found.job,
            status: found.status.public_name(),
            result: found.result,
        })
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attempt::fixture::claimed;

    #[tokio::test]
    async fn unavailable_database_releases_only_dependents() {
        let of = |triggered_by| Claimed { triggered_by, ..claimed() };
        let backend = Backend::unreachable();
        let report = load(&backend, &of(Trigger::Dependency)).await.unwrap_err();
        assert!(report.untried, "{report:?}");
        assert_eq!(load(&backend, &of(Trigger::Scheduler)).await.unwrap(), None);
    }
}
