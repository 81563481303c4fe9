//! The surroundings of an attempt as values of templates.

use serde_json::Value;

/// A value of [`RunContext`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ContextName {
    AttemptId,
    TimeoutSeconds,
    TenantId,
    TenantSlug,
    ProjectId,
    ProjectName,
    Queue,
    Trigger,
    TriggerUser,
    Schedule,
}

impl ContextName {
    pub(super) fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "attempt.id" => Self::AttemptId,
            "timeout_seconds" => Self::TimeoutSeconds,
            "tenant.id" => Self::TenantId,
            "tenant.slug" => Self::TenantSlug,
            "project.id" => Self::ProjectId,
            "project.name" => Self::ProjectName,
            "queue" => Self::Queue,
            "trigger" => Self::Trigger,
            "trigger.user" => Self::TriggerUser,
            "schedule" => Self::Schedule,
            _ => return None,
        })
    }
}

/// The surroundings of an attempt. A missing value is an empty text, or `null` as a whole JSON
/// value: a run of the schedule has no user, and must not fail for that.
#[derive(Debug, Clone, Copy, Default)]
pub struct RunContext<'a> {
    pub attempt_id: &'a str,
    /// The limit that the receiver may use.
    pub timeout_seconds: u64,
    pub tenant_id: &'a str,
    pub tenant_slug: Option<&'a str>,
    pub project_id: Option<&'a str>,
    pub project_name: Option<&'a str>,
    pub queue: Option<&'a str>,
    pub trigger: &'a str,
    pub trigger_user: Option<&'a str>,
    pub schedule: Option<&'a str>,
}

impl RunContext<'_> {
    pub(super) fn value(&self, name: ContextName) -> Value {
        match name {
            ContextName::AttemptId => self.attempt_id.into(),
            ContextName::TimeoutSeconds => self.timeout_seconds.into(),
            ContextName::TenantId => self.tenant_id.into(),
            ContextName::TenantSlug => self.tenant_slug.into(),
            ContextName::ProjectId => self.project_id.into(),
            ContextName::ProjectName => self.project_name.into(),
            ContextName::Queue => self.queue.into(),
            ContextName::Trigger => self.trigger.into(),
            ContextName::TriggerUser => self.trigger_user.into(),
            ContextName::Schedule => self.schedule.into(),
        }
    }
}
