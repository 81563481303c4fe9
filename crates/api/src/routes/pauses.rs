//! Pausing and resuming jobs, functions, queues, projects and tenants.
//!
//! A change is one transaction with its audit entry and event. A repetition writes nothing. A pause
//! changes no run: waiting runs keep waiting, and running ones continue.

use actix_web::{Handler, HttpResponse, web};
use sched_model::definitions::pauses::{self, PauseCommand, PauseRequest, Target};
use sched_model::definitions::resources::Expected;
use sched_model::domain::ids::{ProjectId, TenantId};
use sched_model::identity::audit::AuditEntry;
use sched_model::{Conn, connection::notify, events::append, identity::audit};
use serde_json::json;

use crate::error::ApiError;
use crate::http::call::Call;
use crate::http::extract::{Body, NoParameters};
use crate::http::reply::Reply;
use crate::identity::Actor;
use crate::routes::access::tenancy;
use crate::routes::definitions::{functions, projects, queues};
use crate::routes::jobs::switches;
use crate::routes::named_resource::{can_be_there, event, is_system_queue, may_touch_built_in, refused};
use crate::routes::operations::auditing::plain;
use crate::routes::runs::cancellations::reason;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pausable {
    /// Its pause is a version of the job and may have an end ([`switches`]).
    Job,
    Function,
    Queue,
    Project,
    Tenant,
}

type HandlerResult = Result<HttpResponse, ApiError>;

/// `POST /{kind}/{name}/pause`
pub(crate) fn pause(kind: Pausable) -> impl Handler<(Call, web::Path<String>, Body), Output = HandlerResult> {
    move |call: Call, name: web::Path<String>, body: Body| async move {
        if kind == Pausable::Job {
            return switches::pause(&call, &name, body).await;
        }
        let reason = reason(body)?;
        set_pause(&call, kind, &name, PauseCommand::Pause(reason.as_deref())).await
    }
}

/// `POST /{kind}/{name}/resume`
pub(crate) fn resume(
    kind: Pausable,
) -> impl Handler<(Call, web::Path<String>, Body), Output = HandlerResult> {
    move |call: Call, name: web::Path<String>, body: Body| async move {
        if kind == Pausable::Job {
            return switches::resume(&call, &name, body).await;
        }
        let NoParameters {} = body.read_or_default()?;
        set_pause(&call, kind, &name, PauseCommand::Resume).await
    }
}

impl Pausable {
    /// The name of the kind in messages.
    const fn name(self) -> &'static str {
        match self {
            Self::Job => "job",
            Self::Function => "task function",
            Self::Queue => "queue",
            Self::Project => "project",
            Self::Tenant => "tenant",
        }
    }

    const fn transaction(self) -> &'static str {
        match self {
            Self::Job => "turn_job",
            Self::Function => "turn_function",
            Self::Queue => "turn_queue",
            Self::Project => "turn_project",
            Self::Tenant => "turn_tenant",
        }
    }
}

async fn set_pause(call: &Call, kind: Pausable, name: &str, command: PauseCommand<'_>) -> HandlerResult {
    can_be_there(kind.name(), name)?;
    if kind == Pausable::Queue {
        may_touch_built_in(&call.identity, is_system_queue(call.tenant(), name))?;
    }
    let change = Change { kind, name, command, expected: call.expected()? };
    let written = match kind {
        Pausable::Tenant => {
            call.write_installation(kind.transaction(), async |conn: &mut Conn| {
                change.write(conn, call).await
            })
            .await?
        }
        Pausable::Job | Pausable::Function | Pausable::Queue | Pausable::Project => {
            call.write(kind.transaction(), async |conn: &mut Conn| change.write(conn, call).await).await?
        }
    };
    // Also when nothing changed: the hint of the first request may have been lost.
    if written.extra.is_some() {
        match kind {
            Pausable::Queue => queues::notify_workers(&call.state, &[name.to_owned()]).await,
            Pausable::Job | Pausable::Function | Pausable::Project | Pausable::Tenant => {
                let wake = async |conn: &mut Conn| notify::dispatches_wait_again(conn).await;
                call.state.hint("workers", wake).await;
            }
        }
    }
    Ok(written.response)
}

/// The resource of a pause.
#[derive(Debug, Clone, Copy)]
struct Subject<'a> {
    tenant: TenantId,
    /// Set if the resource is a project.
    project: Option<ProjectId>,
    target: Target<'a>,
}

struct Change<'a> {
    kind: Pausable,
    name: &'a str,
    command: PauseCommand<'a>,
    expected: Expected,
}

impl Change<'_> {
    async fn write(&self, conn: &mut Conn, call: &Call) -> Result<(Reply, ()), ApiError> {
        let (name, own) = (self.name, call.tenant());
        match self.kind {
            // A job has its own change.
            Pausable::Job => Err(ApiError::Broken),
            Pausable::Function => {
                let is_system = functions::found(conn, own, name).await?.is_system;
                may_touch_built_in(&call.identity, is_system)?;
                let subject = Subject { tenant: own, project: None, target: Target::Function(name) };
                self.save(conn, subject, &call.by).await?;
                functions::shown(conn, &call.identity, name, call.state.defaults()).await
            }
            Pausable::Queue => {
                let subject = Subject { tenant: own, project: None, target: Target::Queue(name) };
                self.save(conn, subject, &call.by).await?;
                queues::shown(conn, own, name).await
            }
            Pausable::Project => {
                let project = Some(projects::found(conn, own, name).await?.id);
                let subject = Subject { tenant: own, project, target: Target::Project(name) };
                self.save(conn, subject, &call.by).await?;
                projects::shown(conn, own, name).await
            }
            Pausable::Tenant => {
                let tenant = tenancy::found(conn, name).await?.id;
                let subject = Subject { tenant, project: None, target: Target::Tenant };
                self.save(conn, subject, &call.by).await?;
                tenancy::shown(conn, name).await
            }
        }
    }

    /// Writes nothing if the pause is as requested already.
    async fn save(&self, conn: &mut Conn, subject: Subject<'_>, by: &Actor) -> Result<(), ApiError> {
        let Subject { tenant, project, target } = subject;
        // The operator names a tenant by its slug; its own event and entry do not.
        let name = if target_is_tenant(target) { "" } else { self.name };
        let request = PauseRequest { target, command: self.command, expected: self.expected };
        let transition = pauses::set_pause(conn, tenant, request)
            .await
            .map_err(|error| refused(error, self.kind.name(), name))?;
        if !transition.is_change() {
            return Ok(());
        }
        let labels = labels(target, self.command);
        let entry = AuditEntry {
            tenant_id: Some(tenant),
            actor: by.actor.clone(),
            action: labels.action,
            target_type: labels.target_type,
            target_id: if target_is_tenant(target) { tenant.to_string() } else { name.to_owned() },
            before: Some(plain(&transition.before)),
            after: Some(plain(&transition.after)),
            request_id: Some(by.request.clone()),
            address: by.address.clone(),
        };
        audit::write(conn, &[entry]).await?;
        let payload = json!({"name": name, "reason": transition.after.pause_reason, "by": by.source});
        append::append(conn, &[event(tenant, project, labels.event, payload)]).await?;
        tracing::info!(
            resource.kind = self.kind.name(),
            resource.name = name,
            action = labels.action,
            "pause changed"
        );
        Ok(())
    }
}

const fn target_is_tenant(target: Target<'_>) -> bool {
    matches!(target, Target::Tenant)
}

struct PauseLabels {
    action: &'static str,
    target_type: &'static str,
    event: &'static str,
}

fn labels(target: Target<'_>, command: PauseCommand<'_>) -> PauseLabels {
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
    let (action, event) = match command {
        PauseCommand::Pause(_) => pause,
        PauseCommand::Resume => resume,
    };
    PauseLabels { action, target_type, event }
}
