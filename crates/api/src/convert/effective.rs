//! The values that apply to a job or a function, with their origins. Pure.

use sched_model::definitions::functions::FunctionSettings;
use sched_model::domain::job::JobSettings;
use sched_model::domain::retry::RetryPolicy;
use sched_model::jobs::FunctionDefaults;
use sched_wire::{EffectiveName, EffectiveNumber, EffectiveSettings, SettingOrigin};

/// Settings of the installation that apply where neither a job nor its function has a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct InstallationDefaults {
    pub(crate) max_attempts: u32,
}

impl InstallationDefaults {
    pub(super) fn of_job(self, job: &JobSettings, function: &FunctionDefaults) -> EffectiveSettings {
        use SettingOrigin::{Function, Job};
        let own = job.retry_policy.as_ref().map(|policy| (policy, Job));
        let policy = own.or_else(|| function.retry_policy.as_ref().map(|policy| (policy, Function)));
        let timeout = job.timeout_seconds.map(|seconds| (seconds, Job));
        let queue = job.queue.as_ref().map(|queue| (queue, Job));
        self.settings(
            policy,
            timeout.unwrap_or((function.timeout_seconds, Function)),
            queue.unwrap_or((&function.queue, Function)),
        )
    }

    pub(super) fn of_function(self, function: &FunctionSettings) -> EffectiveSettings {
        use SettingOrigin::Function;
        self.settings(
            function.retry_policy.as_ref().map(|policy| (policy, Function)),
            (function.default_timeout_seconds, Function),
            (&function.queue, Function),
        )
    }

    fn settings(
        self,
        policy: Option<(&RetryPolicy, SettingOrigin)>,
        (timeout, timeout_origin): (i32, SettingOrigin),
        (queue, queue_origin): (&String, SettingOrigin),
    ) -> EffectiveSettings {
        let attempts = policy.map(|(policy, origin)| (policy.max_attempts, origin));
        let (attempts, attempts_origin) =
            attempts.unwrap_or((self.max_attempts, SettingOrigin::Installation));
        EffectiveSettings {
            max_attempts: EffectiveNumber { value: attempts, origin: attempts_origin },
            timeout_seconds: EffectiveNumber {
                value: u32::try_from(timeout).unwrap_or(0),
                origin: timeout_origin,
            },
            queue: EffectiveName { value: queue.clone(), origin: queue_origin },
        }
    }
}
