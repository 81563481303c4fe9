//! The exit code of a followed run.

use sched_runtime::exit;
use sched_wire::{Attempt, AttemptStatus, AttemptsQuery, Page, RunStatus};
use uuid::Uuid;

use crate::api::Api;
use crate::failure::CommandResult;

/// Of a run that has ended with this status.
pub(super) async fn of_run(api: &Api, run: Uuid, status: RunStatus) -> CommandResult {
    if status == RunStatus::Succeeded {
        return Ok(exit::OK);
    }
    let query = AttemptsQuery { run: Some(run), limit: Some(1), ..AttemptsQuery::default() };
    let latest: Page<Attempt> = api.get(&["attempts"], &query).await?;
    Ok(code(latest.items.first().and_then(|attempt| attempt.exit_code)))
}

pub(super) async fn of_attempt(api: &Api, id: Uuid) -> CommandResult {
    let attempt: Attempt = api.get(&["attempts", &id.to_string()], &()).await?;
    let is_success = attempt.status == AttemptStatus::Succeeded;
    Ok(if is_success { exit::OK } else { code(attempt.exit_code) })
}

/// A run may fail although its last program succeeded, for example by a cancellation.
fn code(of_program: Option<i32>) -> u8 {
    let code = of_program.and_then(|code| u8::try_from(code).ok()).filter(|code| *code != exit::OK);
    code.unwrap_or(exit::FAILURE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_run_never_ends_as_success() {
        let cases = [(Some(7), 7), (Some(255), 255), (Some(0), 1), (Some(-1), 1), (Some(256), 1), (None, 1)];
        for (of_program, expected) in cases {
            assert_eq!(code(of_program), expected, "{of_program:?}");
        }
    }
}
