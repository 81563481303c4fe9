#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod access;
mod answer;
mod definitions;
mod enums;
mod instants;
mod operations;
mod plain_errors;
mod query;
mod running;

pub use crate::enums::{
    AfterCondition, AfterMode, AttemptFilter, AttemptStatus, BackoffType, CalendarRoll, CancelState,
    ChannelKind, DeadLetterChoice, DeadLetterState, DeliveryStatus, DstGap, DstOverlap, EndReason, EventType,
    FireNote, HandlerType, JobChange, JobSort, JobStatus, JobType, LeaderState, MessageKind, MisfirePolicy,
    Occasion, OverlapPolicy, ResetReason, RunFilter, RunStatus, SchedulerStatus, Scope, SettingOrigin,
    StuckReason, TimeSort, UnknownWord, WorkerStatus,
};
pub use crate::instants::instant_text;
pub use crate::plain_errors::{PlainError, plain_error};
pub use access::identity::{
    ApiKey, ApiKeyPatch, ApiKeySpec, Me, Membership, MembershipSpec, NewApiKey, OwnSession, PasswordChange,
    Session, SignIn, Tenant, TenantPatch, TenantSpec, User, UserPatch, UserSpec,
};
pub use access::quota::{QuotaUse, Quotas, QuotasPatch, Usage};
pub use answer::{Applied, ApplyResult, Change, Kind, Page, Problem, ProblemError};
pub use definitions::calendar::{Calendar, CalendarChoice, CalendarSpec};
pub use definitions::effective::{EffectiveName, EffectiveNumber, EffectiveSettings};
pub use definitions::function::Function;
pub use definitions::job::{
    FieldChange, Job, JobDeleted, JobVersion, PauseRequest, RestoreRequest, RollbackRequest,
};
pub use definitions::job_type::{JobTypeInfo, JobTypeSpec};
pub use definitions::manifest::{AfterSpec, FunctionSpec, JobSpec, Manifest, RetryPolicySpec};
pub use definitions::notification::{
    NotificationChannel, NotificationChannelSpec, NotificationDeliveriesQuery, NotificationDelivery,
    NotificationRule, NotificationRuleSpec,
};
pub use definitions::preview::{
    DEFAULT_PREVIEW, FireTime, MAX_PREVIEW, Preview, PreviewQuery, PreviewRequest,
};
pub use definitions::project::{DeleteProjectQuery, Project, ProjectDefinition, ProjectDeleted, ProjectSpec};
pub use definitions::queue::{Queue, QueueDefinition, QueueSpec, Rate};
pub use definitions::secret::{
    DeleteSecretQuery, Secret, SecretQuery, SecretReference, SecretSpec, SecretsRotated, UnreadableSecret,
};
pub use definitions::template::{
    InstantiateRequest, MadeFrom, ParameterSpec, ParameterType, Template, TemplateSpec,
};
pub use operations::audit::{AuditEvent, AuditQuery};
pub use operations::event::{Event, EventStreamQuery, EventsQuery, StreamMessage};
pub use operations::fleet::{
    DueJob, QuarantinedJob, QueueStatus, SchedulerInstance, Status, StepDownRequest, Worker, WorkerRun,
};
pub use operations::health::{Health, HealthComponent, HealthState, Index, Metrics, MetricsQuery};
pub use query::{
    ApplyQuery, AttemptsQuery, ExportQuery, FunctionsQuery, Include, JobAttemptsQuery, JobRunsQuery,
    JobsQuery, PageQuery, QueuesQuery, RunsQuery, WorkersQuery,
};
pub use running::command::{Cancelled, JobCancelled, ReasonRequest};
pub use running::dead_letter::{
    DeadLetter, DeadLettersCommand, DeadLettersQuery, DeadLettersSettled, RefusedCount, RetriedDeadLetter,
};
pub use running::explain::{
    BlockingRun, ExplainQuery, ExplainSummary, ExplainedAttempt, ExplainedFires, ExplainedPause,
    ExplainedRun, ExplainedSkip, Explanation, NearestFire, NearestFires, RunExplanation, WaitFor,
};
pub use running::logs::{LogEvent, LogsQuery};
pub use running::run::{Attempt, AttemptOutput, OutputChunk, Progress, Run, TriggerRequest, Triggered};
pub use running::stuck::{ResetStuckRequest, StuckAttempt, StuckAttempts};

/// Base path of every route.
pub const BASE_PATH: &str = "/api/v1";
/// Path of the WebSocket of events.
pub const EVENTS_SOCKET: &str = "/ws/events";
/// Path of the descriptions of problem codes.
pub const PROBLEMS: &str = "/api/docs/problems";
/// Path of the health of each component.
pub const DETAILED_HEALTH: &str = "/health/detailed";
/// Subprotocol of the WebSocket of events.
pub const EVENTS_PROTOCOL: &str = "sched.events.v1";
/// Prefix of the key as a second subprotocol, for browsers, which cannot set headers of a
/// WebSocket.
pub const KEY_PROTOCOL: &str = "sched.bearer.";
/// Media type of problem documents.
pub const PROBLEM_JSON: &str = "application/problem+json";
/// Header with a key for a request that changes data; repeating the request with the same key has
/// no effect.
pub const IDEMPOTENCY_KEY: &str = "Idempotency-Key";
/// Cookie of a session. The prefix binds it to this host, to TLS and to all paths.
pub const SESSION_COOKIE: &str = "__Host-sched_session";
/// Header that proves that a request with the cookie comes from a page of this origin.
pub const CSRF_TOKEN: &str = "X-CSRF-Token";
/// Header with the id of a request; in every answer, and in the request if the client sets it.
pub const REQUEST_ID: &str = "X-Request-Id";
/// Maximum number of items of a page.
pub const MAX_PAGE: u32 = 200;
/// Number of items of a page when the request sets none.
pub const DEFAULT_PAGE: u32 = 50;
