//! Installs the built-in functions and their jobs.
//!
//! [`install`] creates missing ones in one transaction and is idempotent: `schedctl migrate up` and
//! `schedctl dev` run it. Functions follow the release. Jobs belong to the operator: a changed,
//! disabled or deleted one stays so.

use diesel::prelude::*;
use diesel_async::RunQueryDsl;
use serde_json::json;

use super::functions::{self, FunctionSettings};
use crate::events::append::{self, NewEvent};
use crate::identity::audit::{self, AuditEntry};
use crate::jobs::{self, Job, SaveError, SaveMode, Switch, SwitchRequest, Switched, Writing};
use crate::schema::{queues, scheduled_jobs};
use crate::{Conn, DbResult, connection::transaction};
use sched_domain::built_in::{self, Builtin};
use sched_domain::dependency::AfterMode;
use sched_domain::function::HandlerType;
use sched_domain::ids::{DEFAULT_TENANT, FunctionId};
use sched_domain::job::{JobSettings, MisfireKind};
use sched_timetable::CalendarRoll;

/// Component name in job versions.
const SOURCE: &str = "install";

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Installed {
    pub functions: Vec<&'static str>,
    pub jobs: Vec<&'static str>,
    /// Skipped: another function or job has the name.
    pub taken: Vec<&'static str>,
}

pub async fn install(conn: &mut Conn) -> Result<Installed, SaveError> {
    transaction::transact(conn, "install_system", async |conn: &mut Conn| {
        diesel::insert_into(queues::table)
            .values((
                queues::tenant_id.eq(DEFAULT_TENANT),
                queues::name.eq(built_in::QUEUE),
                queues::description.eq("Queue of the built-in jobs."),
            ))
            .on_conflict_do_nothing()
            .execute(conn)
            .await?;
        let mut installed = Installed::default();
        for builtin in built_in::builtins() {
            install_one(conn, &builtin, &mut installed).await?;
        }
        Ok(installed)
    })
    .await
}

async fn install_one(conn: &mut Conn, builtin: &Builtin, installed: &mut Installed) -> Result<(), SaveError> {
    let Some((function, is_changed)) =
        functions::save_builtin(conn, DEFAULT_TENANT, &function(builtin)).await?
    else {
        installed.taken.push(builtin.name);
        return Ok(());
    };
    if is_changed {
        installed.functions.push(builtin.name);
    }
    if has_job(conn, builtin, function).await? {
        return Ok(());
    }
    if jobs::by_name(conn, DEFAULT_TENANT, builtin.name).await?.is_some() {
        installed.taken.push(builtin.name);
        return Ok(());
    }
    let saved =
        jobs::save(conn, DEFAULT_TENANT, &job(builtin), Writing::new(SaveMode::Create, SOURCE)).await?;
    if let Some(reason) = builtin.disabled_reason {
        diesel::update(scheduled_jobs::table.find((DEFAULT_TENANT, saved.job.id)))
            .set(scheduled_jobs::disabled_reason.eq(reason))
            .execute(conn)
            .await?;
    }
    installed.jobs.push(builtin.name);
    Ok(())
}

/// Enables a job that [`install`] left disabled for want of settings. Returns whether it did: not if
/// a user has changed the job.
pub async fn enable(conn: &mut Conn, name: &str, source: &str) -> Result<bool, SaveError> {
    transaction::transact(conn, "enable_built_in", async |conn: &mut Conn| {
        let Some(job) = jobs::by_name(conn, DEFAULT_TENANT, name).await? else { return Ok(false) };
        let is_untouched =
            job.state.version == 1 && job.state.created_src == SOURCE && job.state.disabled_reason.is_some();
        if job.settings.is_enabled || !is_untouched {
            return Ok(false);
        }
        let version = Some(job.state.version);
        let request =
            SwitchRequest { tenant: DEFAULT_TENANT, job: job.id, switch: Switch::Enable, version, source };
        let Switched::Changed { before, after } = jobs::switch(conn, &request).await? else {
            return Ok(false);
        };
        let entry = AuditEntry {
            tenant_id: Some(DEFAULT_TENANT),
            actor: source.to_owned(),
            action: "enable_job",
            target_type: "job",
            target_id: after.id.to_string(),
            before: Some(flags(&before)),
            after: Some(flags(&after)),
            request_id: None,
            address: None,
        };
        audit::write(conn, &[entry]).await?;
        let event = NewEvent {
            tenant_id: Some(DEFAULT_TENANT),
            project_id: None,
            job_id: Some(after.id),
            dispatch_id: None,
            event_type: append::JOB_ENABLED,
            payload: json!({"job_name": name, "by": source}),
        };
        append::append(conn, &[event]).await?;
        Ok(true)
    })
    .await
}

fn flags(job: &Job) -> serde_json::Value {
    json!({"is_enabled": job.settings.is_enabled, "version": job.state.version})
}

/// Also true after a user deleted the job.
async fn has_job(conn: &mut Conn, builtin: &Builtin, function: FunctionId) -> DbResult<bool> {
    let any = scheduled_jobs::table
        .filter(scheduled_jobs::tenant_id.eq(DEFAULT_TENANT))
        .filter(scheduled_jobs::task_function_id.eq(function))
        .filter(scheduled_jobs::scope.eq(builtin.scope));
    Ok(diesel::select(diesel::dsl::exists(any)).get_result(conn).await?)
}

fn function(builtin: &Builtin) -> FunctionSettings {
    FunctionSettings {
        name: builtin.name.to_owned(),
        display_name: builtin.display_name.to_owned(),
        description: builtin.description.to_owned(),
        handler_type: HandlerType::Native,
        handler_config: json!({"handler": builtin.name, "grace_seconds": 30}),
        queue: built_in::QUEUE.to_owned(),
        default_timeout_seconds: builtin.timeout_seconds,
        retry_policy: builtin.retry_policy.clone(),
        args_schema: None,
    }
}

fn job(builtin: &Builtin) -> JobSettings {
    JobSettings {
        name: builtin.name.to_owned(),
        description: builtin.description.to_owned(),
        scope: builtin.scope,
        project: None,
        function: builtin.name.to_owned(),
        task_args: json!({}),
        job_type: builtin.job_type,
        schedule_config: builtin.schedule.clone(),
        timezone: "UTC".to_owned(),
        dst_gap: None,
        dst_overlap: None,
        start_at: None,
        end_at: None,
        max_runs: None,
        jitter_seconds: 0,
        calendars: Vec::new(),
        calendar_roll: CalendarRoll::Skip,
        expected_duration_seconds: None,
        after: Vec::new(),
        after_mode: AfterMode::All,
        misfire_policy: MisfireKind::FireOnce,
        misfire_grace_seconds: None,
        misfire_cap: 1,
        max_instances: 1,
        overlap_policy: builtin.overlap,
        queue: None,
        priority: None,
        timeout_seconds: None,
        start_within_seconds: None,
        retry_policy: None,
        is_enabled: builtin.disabled_reason.is_none(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_jobs_and_functions_are_sound() {
        for builtin in built_in::builtins() {
            assert_eq!(job(&builtin).check(), Vec::new(), "{}", builtin.name);
            let config = function(&builtin).handler_config;
            let config = sched_domain::handler_config::NativeConfig::parse(config).unwrap();
            assert_eq!(config.handler, builtin.name);
        }
    }
}
