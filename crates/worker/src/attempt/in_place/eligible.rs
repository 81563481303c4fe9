//! Which attempts may run in place.

use std::time::Duration;

use sched_model::domain::function::HandlerType;

use crate::attempt::executor::Attempt;
use crate::attempt::upstream::may_follow_a_run;
use crate::backend::Claimed;

/// The driver detects a time-out late by two ticks.
pub(super) const SHORTEST_TIMEOUT: Duration = Duration::from_millis(500);

pub(super) fn may_run_in_place(attempt: &Attempt) -> bool {
    is_eligible(&attempt.claimed)
}

fn is_eligible(claimed: &Claimed) -> bool {
    // The names of secrets are in lists or objects.
    let is_plain = |config: &serde_json::Value| {
        config
            .as_object()
            .is_some_and(|fields| fields.values().all(|one| !one.is_object() && !one.is_array()))
    };
    claimed.handler_type == HandlerType::Native.as_str()
        && claimed.timeout >= SHORTEST_TIMEOUT
        && is_plain(&claimed.handler_config)
        && !may_follow_a_run(claimed)
}

#[cfg(test)]
mod tests {
    use sched_model::domain::secret::named_secrets;
    use serde_json::{Value, json};

    use super::*;
    use crate::attempt::fixture::claimed;

    fn native(handler_config: Value, timeout: Duration) -> Claimed {
        Claimed { handler_type: HandlerType::Native.as_str().into(), handler_config, timeout, ..claimed() }
    }

    #[test]
    fn functions_with_secrets_or_short_timeouts_are_excluded() {
        let minute = Duration::from_secs(60);
        assert!(is_eligible(&native(json!({"handler": "noop", "grace_seconds": 1}), minute)));
        for config in [
            json!({"handler": "noop", "secrets": ["token"]}),
            json!({"handler": "noop", "options": {"key": {"secret": "token"}}}),
        ] {
            assert!(!named_secrets(&config).is_empty());
            assert!(!is_eligible(&native(config, minute)));
        }
        let short = SHORTEST_TIMEOUT - Duration::from_millis(1);
        assert!(!is_eligible(&native(json!({"handler": "noop"}), short)));
        let process = HandlerType::Process.as_str().into();
        assert!(!is_eligible(&Claimed {
            handler_type: process,
            ..native(json!({"handler": "noop"}), minute)
        }));
    }
}
