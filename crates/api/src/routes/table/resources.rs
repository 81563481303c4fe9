//! Routes of projects, functions, templates, notifications, tenants, queues and the installation.

use actix_web::http::StatusCode;
use sched_model::domain::identity::Permission as P;
use sched_wire as wire;
use sched_wire::{Page, PageQuery};

use crate::http::route::{Path, at};
use crate::openapi::operation;
use crate::routes::{
    access::{tenancy, users},
    definitions::{functions, projects, templates},
    jobs::job_types,
    operations::{drains, maintenance, notifications},
    pauses::{self, Pausable},
};

pub(super) fn resources() -> Vec<Path> {
    [
        in_projects(),
        of_functions(),
        of_templates(),
        of_notifications(),
        of_tenants(),
        of_queues(),
        of_the_installation(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn in_projects() -> Vec<Path> {
    let turned = |summary| operation(summary).if_match().ok::<wire::Project>();
    vec![
        at("/projects").get(
            P::JobsRead,
            projects::list,
            operation("List projects").query::<PageQuery>().ok::<Page<wire::Project>>(),
        ),
        at("/projects/{name}")
            .get(P::JobsRead, projects::get, operation("Show a project").ok::<wire::Project>())
            .put(
                P::JobsWrite,
                projects::put,
                operation("Create or replace a project")
                    .accepts::<wire::ProjectSpec>()
                    .if_match()
                    .put::<wire::Project>(),
            )
            .delete(
                P::JobsWrite,
                projects::delete,
                operation("Delete a project, optionally with its jobs")
                    .query::<wire::DeleteProjectQuery>()
                    .if_match()
                    .ok::<wire::ProjectDeleted>(),
            ),
        at("/projects/{name}/pause").post(
            P::JobsOperate,
            pauses::pause(Pausable::Project),
            turned("Stop dispatching and claiming anything of a project").may_take::<wire::ReasonRequest>(),
        ),
        at("/projects/{name}/resume").post(
            P::JobsOperate,
            pauses::resume(Pausable::Project),
            turned("End the pause of a project"),
        ),
    ]
}

fn of_functions() -> Vec<Path> {
    let turned = |summary| operation(summary).if_match().ok::<wire::Function>();
    vec![
        at("/functions/{name}")
            .get(P::JobsRead, functions::get, operation("Show a task function").ok::<wire::Function>())
            .put(
                P::JobsWrite,
                functions::put,
                operation("Create or replace a task function")
                    .accepts::<wire::FunctionSpec>()
                    .if_match()
                    .put::<wire::Function>(),
            )
            .delete(
                P::JobsWrite,
                functions::delete,
                operation("Delete a task function that no job runs").if_match().no_content(),
            ),
        at("/functions/{name}/activate").post(
            P::JobsWrite,
            functions::activate,
            turned("Have a task function accept jobs"),
        ),
        at("/functions/{name}/deactivate").post(
            P::JobsWrite,
            functions::deactivate,
            turned("Have a task function accept no jobs; those it has are disabled as they come due"),
        ),
        at("/functions/{name}/pause").post(
            P::JobsOperate,
            pauses::pause(Pausable::Function),
            turned("Stop dispatching and claiming any job of a task function")
                .may_take::<wire::ReasonRequest>(),
        ),
        at("/functions/{name}/resume").post(
            P::JobsOperate,
            pauses::resume(Pausable::Function),
            turned("End the pause of a task function"),
        ),
    ]
}

fn of_templates() -> Vec<Path> {
    vec![
        at("/templates").get(
            P::JobsRead,
            templates::list,
            operation("List templates").query::<PageQuery>().ok::<Page<wire::Template>>(),
        ),
        at("/templates/{name}")
            .get(P::JobsRead, templates::get, operation("Show a template").ok::<wire::Template>())
            .put(
                P::JobsWrite,
                templates::put,
                operation("Create or replace a template")
                    .if_match()
                    .accepts_named::<wire::TemplateSpec>()
                    .put::<wire::Template>(),
            )
            .delete(
                P::JobsWrite,
                templates::delete,
                operation("Delete a template; jobs created from it stay").if_match().no_content(),
            ),
        at("/templates/{name}/render").post(
            P::JobsRead,
            templates::render,
            operation("Render a template with values, without creating the job")
                .may_take::<wire::InstantiateRequest>()
                .ok::<wire::JobSpec>(),
        ),
        at("/templates/{name}/instantiate").post(
            P::JobsWrite,
            templates::instantiate,
            operation("Create a job from a template")
                .if_match()
                .may_take::<wire::InstantiateRequest>()
                .put::<wire::Job>(),
        ),
    ]
}

fn of_notifications() -> Vec<Path> {
    vec![
        at("/notification-channels").get(
            P::JobsRead,
            notifications::channels::list,
            operation("List notification channels")
                .query::<PageQuery>()
                .ok::<Page<wire::NotificationChannel>>(),
        ),
        at("/notification-channels/{name}")
            .get(
                P::JobsRead,
                notifications::channels::get,
                operation("Show a notification channel").ok::<wire::NotificationChannel>(),
            )
            .put(
                P::JobsWrite,
                notifications::channels::put,
                operation("Create or replace a notification channel")
                    .if_match()
                    .accepts_named::<wire::NotificationChannelSpec>()
                    .put::<wire::NotificationChannel>(),
            )
            .delete(
                P::JobsWrite,
                notifications::channels::delete,
                operation("Delete a notification channel that no rule uses").if_match().no_content(),
            ),
        at("/notification-channels/{name}/test").post(
            P::JobsWrite,
            notifications::channels::test,
            operation("Send a test message to a notification channel")
                .returns::<wire::NotificationDelivery>(StatusCode::ACCEPTED),
        ),
        at("/notification-rules").get(
            P::JobsRead,
            notifications::rules::list,
            operation("List notification rules").query::<PageQuery>().ok::<Page<wire::NotificationRule>>(),
        ),
        at("/notification-rules/{name}")
            .get(
                P::JobsRead,
                notifications::rules::get,
                operation("Show a notification rule").ok::<wire::NotificationRule>(),
            )
            .put(
                P::JobsWrite,
                notifications::rules::put,
                operation("Create or replace a notification rule")
                    .if_match()
                    .accepts_named::<wire::NotificationRuleSpec>()
                    .put::<wire::NotificationRule>(),
            )
            .delete(
                P::JobsWrite,
                notifications::rules::delete,
                operation("Delete a notification rule; notifications that it has created are still sent")
                    .if_match()
                    .no_content(),
            ),
        at("/notification-deliveries").get(
            P::RunsRead,
            notifications::deliveries::list,
            operation("List notifications, sent and waiting, newest first")
                .query::<wire::NotificationDeliveriesQuery>()
                .ok::<Page<wire::NotificationDelivery>>(),
        ),
        at("/notification-deliveries/{id}").get(
            P::RunsRead,
            notifications::deliveries::get,
            operation("Show a notification and its delivery").ok::<wire::NotificationDelivery>(),
        ),
    ]
}

fn of_tenants() -> Vec<Path> {
    let turned = |summary| operation(summary).if_match().ok::<wire::Tenant>();
    vec![
        at("/tenants/{slug}")
            .get(P::SystemOperate, tenancy::get, operation("Show a tenant").ok::<wire::Tenant>())
            .patch(
                P::SystemOperate,
                tenancy::patch,
                operation("Change the name and the quotas of a tenant")
                    .accepts::<wire::TenantPatch>()
                    .if_match()
                    .ok::<wire::Tenant>(),
            )
            .delete(
                P::SystemOperate,
                tenancy::delete,
                operation("Delete a tenant that has no jobs; its history is kept as long as any")
                    .if_match()
                    .no_content(),
            ),
        at("/tenants/{slug}/pause").post(
            P::SystemOperate,
            pauses::pause(Pausable::Tenant),
            turned("Stop dispatching and claiming anything of a tenant").may_take::<wire::ReasonRequest>(),
        ),
        at("/tenants/{slug}/resume").post(
            P::SystemOperate,
            pauses::resume(Pausable::Tenant),
            turned("End the pause of a tenant"),
        ),
        at("/tenants/{slug}/usage").get(
            P::SystemOperate,
            tenancy::usage_of,
            operation("Show the quota usage of a tenant").ok::<wire::Usage>(),
        ),
        at("/usage").get(
            P::JobsRead,
            tenancy::own_usage,
            operation("Show the quota usage of the caller's tenant").ok::<wire::Usage>(),
        ),
    ]
}

fn of_queues() -> Vec<Path> {
    let turned = |summary| operation(summary).if_match().ok::<wire::Queue>();
    vec![
        at("/queues/{name}/pause").post(
            P::QueuesWrite,
            pauses::pause(Pausable::Queue),
            turned("Stop claiming anything from a queue").may_take::<wire::ReasonRequest>(),
        ),
        at("/queues/{name}/resume").post(
            P::QueuesWrite,
            pauses::resume(Pausable::Queue),
            turned("End the pause of a queue"),
        ),
    ]
}

fn of_the_installation() -> Vec<Path> {
    vec![
        at("/users/{email}")
            .get(P::SystemOperate, users::get, operation("Show a user").ok::<wire::User>())
            .patch(
                P::SystemOperate,
                users::patch,
                operation(
                    "Change the name or the password of a user, or whether they operate the installation",
                )
                .accepts::<wire::UserPatch>()
                .if_match()
                .ok::<wire::User>(),
            )
            .delete(
                P::SystemOperate,
                users::delete,
                operation(
                    "Delete a user, their memberships and keys; to be able to take it back, deactivate them",
                )
                .if_match()
                .no_content(),
            ),
        at("/maintenance/tick").post(
            P::SystemOperate,
            maintenance::tick,
            operation("Let the leader check all schedules now")
                .returns::<wire::SchedulerInstance>(StatusCode::ACCEPTED),
        ),
        at("/maintenance/reset-stuck").post(
            P::SystemOperate,
            maintenance::reset_stuck,
            operation("Let the leader end stuck attempts, or list them with a dry run")
                .may_take::<wire::ResetStuckRequest>()
                .ok::<wire::StuckAttempts>()
                .returns::<wire::SchedulerInstance>(StatusCode::ACCEPTED),
        ),
        at("/job-types").get(
            P::JobsRead,
            job_types::list,
            operation("List the kinds of schedule").ok::<Page<wire::JobTypeInfo>>(),
        ),
        at("/job-types/{name}")
            .get(P::JobsRead, job_types::get, operation("Show a kind of schedule").ok::<wire::JobTypeInfo>())
            .put(
                P::SystemOperate,
                job_types::put,
                operation("Enable or disable a kind of schedule for new jobs")
                    .accepts::<wire::JobTypeSpec>()
                    .if_match()
                    .ok::<wire::JobTypeInfo>(),
            ),
        at("/workers/{id}/drain").post(
            P::SystemOperate,
            drains::drain,
            operation("Drain a worker: it finishes its attempts and claims no new run")
                .returns::<wire::Worker>(StatusCode::ACCEPTED),
        ),
        at("/workers/{id}/undrain").post(
            P::SystemOperate,
            drains::undrain,
            operation("End the drain of a worker").returns::<wire::Worker>(StatusCode::ACCEPTED),
        ),
    ]
}
