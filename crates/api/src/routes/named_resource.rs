//! Common parts of changes of named resources: names in paths, rejections and events.

use sched_model::definitions::resources::ChangeError;
use sched_model::domain::built_in;
use sched_model::domain::identity::Permission;
use sched_model::domain::ids::{DEFAULT_TENANT, ProjectId, TenantId};
use sched_model::events::append::NewEvent;
use serde_json::Value;

use crate::error::ApiError;
use crate::error::field_error::{FieldError, Reason};
use crate::identity::Identity;

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

/// PostgreSQL fails over a NUL, so a name with one is rejected here.
pub(super) fn can_be_there(kind: &'static str, name: &str) -> Result<(), ApiError> {
    if name.contains('\0') { Err(no_such(kind, name)) } else { Ok(()) }
}

pub(super) fn no_such(kind: &'static str, name: &str) -> ApiError {
    ApiError::NotFound { kind, name: name.to_owned() }
}

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

pub(super) fn may_touch_built_in(identity: &Identity, is_built_in: bool) -> Result<(), ApiError> {
    if is_built_in && !identity.operates() {
        return Err(ApiError::Forbidden(Permission::SystemOperate));
    }
    Ok(())
}

pub(super) fn is_system_queue(tenant: TenantId, queue: &str) -> bool {
    tenant == DEFAULT_TENANT && queue == built_in::QUEUE
}

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
