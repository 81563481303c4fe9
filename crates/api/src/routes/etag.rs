//! What changes of named resources have in common: tags, refusals, and kill switches.
//!
//! A kill switch is one transaction with its entry in the audit log and its event. Turning it the way it stands is harmless and writes
//! nothing.

use sched_model::definitions::pauses::{self, Target, Turn};
use sched_model::definitions::resources::{ChangeError, Expected, version_of};
use sched_model::domain::built_in;
use sched_model::domain::identity::Permission;
use sched_model::domain::ids::{DEFAULT_TENANT, ProjectId, TenantId};
use sched_model::events::append::NewEvent;
use sched_model::identity::audit::AuditEntry;
use sched_model::{Conn, events::append, identity::audit};
use serde_json::{Value, json};

use crate::error::ApiError;
use crate::error::field_error::{FieldError, Reason};
use crate::identity::{Actor, Identity};
use crate::routes::operations::auditing::plain;

/// The entity tag of a resource that was last changed then.
pub(super) fn tag(updated_at: chrono::DateTime<chrono::Utc>) -> String {
    format!("\"{}\"", version_of(updated_at))
}

/// The entity tag of a resource that counts its versions.
pub(super) fn version_tag(version: i64) -> String {
    format!("\"{version}\"")
}

/// A body with the name in it that stands in the path, to which it may leave it.
pub(super) fn named(name: &str, mut body: Value) -> Result<Value, ApiError> {
    if let Value::Object(fields) = &mut body {
        let given = fields.entry("name").or_insert_with(|| name.into());
        if given.as_str().is_some_and(|given| given != name) {
            let message = format!("must be {name:?}, as in the path, or absent");
            return Err(ApiError::Refused(vec![FieldError::invalid("/name", message)]));
        }
    }
    Ok(body)
}

/// PostgreSQL would fail over a NUL, so a name with one is answered here.
pub(super) fn can_be_there(kind: &'static str, name: &str) -> Result<(), ApiError> {
    if name.contains('\0') { Err(no_such(kind, name)) } else { Ok(()) }
}

/// The refusal for a thing that is not there.
pub(super) fn no_such(kind: &'static str, name: &str) -> ApiError {
    ApiError::NotFound { kind, name: name.to_owned() }
}

/// Why a resource was not changed.
pub(super) fn refused(error: ChangeError, kind: &'static str, name: &str) -> ApiError {
    let conflict =
        |reason, message| ApiError::Refused(vec![FieldError { reason, pointer: String::new(), message }]);
    match error {
        ChangeError::NotFound => no_such(kind, name),
        ChangeError::OtherVersion(found) => ApiError::OtherVersion { found },
        ChangeError::Exists => {
            conflict(Reason::AlreadyExists, format!("a {kind} named {name:?} exists already"))
        }
        ChangeError::BuiltIn => conflict(
            Reason::BuiltIn,
            format!("the {kind} {name:?} is part of every installation and cannot be deleted"),
        ),
        ChangeError::InUse(users) => conflict(
            Reason::InUse,
            format!("the {kind} {name:?} is in use by {users}; take it from them first"),
        ),
        ChangeError::Database(error) => error.into(),
    }
}

/// Refuses who does not operate the installation what concerns its built-in jobs.
pub(super) fn may_touch_built_in(identity: &Identity, is_built_in: bool) -> Result<(), ApiError> {
    if is_built_in && !identity.operates() {
        return Err(ApiError::Forbidden(Permission::SystemOperate));
    }
    Ok(())
}

/// Whether the built-in jobs wait in this queue.
pub(super) fn is_system_queue(tenant: TenantId, queue: &str) -> bool {
    tenant == DEFAULT_TENANT && queue == built_in::QUEUE
}

/// A kill switch to be turned.
pub(super) struct Switch<'a> {
    pub(super) tenant: TenantId,
    pub(super) target: Target<'a>,
    pub(super) expected: Expected,
}

impl Switch<'_> {
    /// Kind and name of what is switched.
    fn named(&self) -> (&'static str, &str) {
        match self.target {
            Target::Tenant => ("tenant", ""),
            Target::Project(name) => ("project", name),
            Target::Queue(name) => ("queue", name),
            Target::Function(name) => ("task function", name),
        }
    }

    /// Turns it, with what is kept of that; whether it stood the other way.
    pub(super) async fn turn(
        &self,
        conn: &mut Conn,
        turn: Turn<'_>,
        project: Option<ProjectId>,
        by: &Actor,
    ) -> Result<bool, ApiError> {
        let (kind, name) = self.named();
        let turned = pauses::turn(conn, self.tenant, self.target, turn, self.expected)
            .await
            .map_err(|error| refused(error, kind, name))?;
        if !turned.is_change() {
            return Ok(false);
        }
        let words = words(self.target, turn);
        let target_id = match self.target {
            Target::Tenant => self.tenant.to_string(),
            Target::Project(_) | Target::Queue(_) | Target::Function(_) => name.to_owned(),
        };
        let entry = AuditEntry {
            tenant_id: Some(self.tenant),
            actor: by.actor.clone(),
            action: words.action,
            target_type: words.target_type,
            target_id,
            before: Some(plain(&turned.before)),
            after: Some(plain(&turned.after)),
            request_id: Some(by.request.clone()),
            address: by.address.clone(),
        };
        audit::write(conn, &[entry]).await?;
        let payload = json!({"name": name, "reason": turned.after.pause_reason, "by": by.source});
        let event = event(self.tenant, project, words.event, payload);
        append::append(conn, &[event]).await?;
        tracing::info!(
            resource.kind = kind,
            resource.name = name,
            action = words.action,
            "Turned a kill switch."
        );
        Ok(true)
    }
}

/// How a turn is called in the audit log and in the stream of events.
struct Words {
    action: &'static str,
    target_type: &'static str,
    event: &'static str,
}

fn words(target: Target<'_>, turn: Turn<'_>) -> Words {
    let (target_type, pause, resume) = match target {
        Target::Tenant => {
            ("tenant", ("pause_tenant", append::TENANT_PAUSED), ("resume_tenant", append::TENANT_RESUMED))
        }
        Target::Project(_) => (
            "project",
            ("pause_project", append::PROJECT_PAUSED),
            ("resume_project", append::PROJECT_RESUMED),
        ),
        Target::Queue(_) => {
            ("queue", ("pause_queue", append::QUEUE_PAUSED), ("resume_queue", append::QUEUE_RESUMED))
        }
        Target::Function(_) => (
            "task_function",
            ("pause_task_function", append::FUNCTION_PAUSED),
            ("resume_task_function", append::FUNCTION_RESUMED),
        ),
    };
    let (action, event) = match turn {
        Turn::Pause(_) => pause,
        Turn::Resume => resume,
    };
    Words { action, target_type, event }
}

/// An event about a resource of a tenant.
pub(super) fn event(
    tenant: TenantId,
    project: Option<ProjectId>,
    event_type: &'static str,
    payload: Value,
) -> NewEvent {
    NewEvent {
        tenant_id: Some(tenant),
        project_id: project,
        job_id: None,
        dispatch_id: None,
        event_type,
        payload,
    }
}
