//! Claims and ended attempts for tests.

use std::time::Duration;

use chrono::DateTime;
use sched_model::domain::attempt::Failures;
use sched_model::domain::ids::{ClaimToken, DispatchId, ExecutionId, JobId, TenantId};
use sched_model::domain::run_state::Trigger;
use sched_runtime::monotonic_clock::monotonic;
use serde_json::Value;
use uuid::Uuid;

use crate::attempt::result::{Circumstances, ended};
use crate::backend::{Claimed, Ended};
use crate::handlers::{ErrorClass, Report};

pub(crate) fn claimed() -> Claimed {
    Claimed {
        claim_id: 1,
        dispatch_id: DispatchId(Uuid::nil()),
        tenant_id: TenantId(Uuid::nil()),
        job_id: JobId(Uuid::nil()),
        job_name: "calls".into(),
        token: ClaimToken(1),
        attempt: 3,
        failures: Failures { retried: 2, lost: 0 },
        scheduled_for: DateTime::UNIX_EPOCH,
        created_at: DateTime::UNIX_EPOCH,
        available_at: DateTime::UNIX_EPOCH,
        claimed_at: DateTime::UNIX_EPOCH,
        triggered_by: Trigger::Api,
        is_catch_up: false,
        args: Value::Null,
        traceparent: None,
        handler_type: "http".into(),
        handler_config: Value::Null,
        timeout: Duration::from_secs(60),
        retry_policy: None,
        limited_queue: None,
    }
}

pub(crate) fn failed(claimed: &Claimed) -> Ended {
    let report = Report::failed(ErrorClass::ExitCode, "exit code 7");
    let circumstances = Circumstances { received: monotonic(), is_released: false, max_attempts: 3 };
    ended(claimed, ExecutionId(Uuid::nil()), report, &circumstances)
}
