//! The table of routes: every path below [`sched_wire::BASE_PATH`], and for each method its
//! requirement, its handler and its OpenAPI description. Tests walk this table; it contains every
//! route.
//!
//! Length: one list of all routes is easier to search than several.

mod identity;
mod resources;

use actix_web::http::StatusCode;
use sched_model::domain::identity::Permission as P;
use sched_wire as wire;
use sched_wire::{Page, PageQuery};

use crate::http::route::{Needs, Path, at};
use crate::openapi::{self, operation};
use crate::routes::{
    definitions::{calendars, functions, queues, secrets},
    jobs::{self, apply, explanations, export, previews, switches, trigger},
    operations::{audit_events, event_socket, events, fleet, health},
    pauses::{self, Pausable},
    runs::{attempt_list, cancellations, dead_letters, logs, retries, run_list},
};

use self::identity::identity;
use self::resources::resources;

pub(crate) fn table() -> Vec<Path> {
    [documents(), identity(), jobs(), definitions(), runs(), fleet(), resources()]
        .into_iter()
        .flatten()
        .collect()
}

/// Outside the base path, and not in the OpenAPI document, which cannot describe `WebSockets`.
pub(crate) fn socket() -> Path {
    at(wire::EVENTS_SOCKET).get(
        P::RunsRead,
        event_socket::open,
        operation("Follow events over a WebSocket").query::<wire::EventStreamQuery>(),
    )
}

/// Their roots are `/` and [`crate::http::route::PAGES`]. Not in the OpenAPI document.
pub(crate) fn pages() -> Vec<Path> {
    vec![
        at("/").get(Needs::Page, openapi::index, operation("Show the addresses of the API")),
        at("/api/docs").get(Needs::Page, openapi::page, operation("Show the documentation of the API")),
        at(wire::PROBLEMS).get(Needs::Page, openapi::problems, operation("Show the codes of problems")),
        at("/api/docs/{file:.*}").get(
            Needs::Page,
            openapi::swagger,
            operation("Show a file of the documentation"),
        ),
    ]
}

fn documents() -> Vec<Path> {
    let document = operation("Show this document").ok::<serde_json::Map<String, serde_json::Value>>();
    let addresses = operation("Show the addresses of the API and of its documentation");
    vec![
        at("").get(Needs::Nothing, openapi::index, addresses.ok::<wire::Index>()),
        at("/openapi.json").get(Needs::Nothing, openapi::json, document),
    ]
}

fn jobs() -> Vec<Path> {
    let switched = |summary| operation(summary).if_match().ok::<wire::Job>();
    vec![
        at("/jobs")
            .get(
                P::JobsRead,
                jobs::list,
                operation("List jobs, by name").query::<wire::JobsQuery>().ok::<Page<wire::Job>>(),
            )
            .post(
                P::JobsWrite,
                jobs::create,
                operation("Create a job").accepts::<wire::JobSpec>().created::<wire::Job>(),
            ),
        at("/jobs/{job}")
            .get(P::JobsRead, jobs::get, operation("Show a job; a deleted one by its id").ok::<wire::Job>())
            .put(
                P::JobsWrite,
                jobs::put,
                operation("Create or replace a job by name")
                    .if_match()
                    .accepts_named::<wire::JobSpec>()
                    .put::<wire::Job>(),
            )
            .patch(
                P::JobsWrite,
                jobs::patch,
                operation("Change settings of a job with a JSON merge patch")
                    .if_match()
                    .merges::<wire::JobSpec>()
                    .ok::<wire::Job>(),
            )
            .delete(
                P::JobsWrite,
                jobs::delete,
                operation("Delete a job; its history stays, and it can be restored")
                    .if_match()
                    .ok::<wire::JobDeleted>(),
            ),
        at("/jobs/{job}/restore").post(
            P::JobsWrite,
            jobs::restore,
            switched("Restore a deleted job").may_take::<wire::RestoreRequest>(),
        ),
        at("/jobs/{job}/rollback").post(
            P::JobsWrite,
            jobs::rollback,
            switched("Give a job the settings of an earlier version").accepts::<wire::RollbackRequest>(),
        ),
        at("/jobs/{job}/versions").get(
            P::JobsRead,
            jobs::versions,
            operation("List the versions of a job with their changes, newest first")
                .query::<PageQuery>()
                .ok::<Page<wire::JobVersion>>(),
        ),
        at("/jobs/{job}/versions/{version}").get(
            P::JobsRead,
            jobs::version,
            operation("Show a version of a job").ok::<wire::JobVersion>(),
        ),
        at("/jobs/{job}/runs").get(
            P::RunsRead,
            jobs::dispatches,
            operation("List the runs of a job, newest first by default")
                .query::<wire::JobRunsQuery>()
                .ok::<Page<wire::Run>>(),
        ),
        at("/jobs/{job}/attempts").get(
            P::RunsRead,
            jobs::executions,
            operation("List the attempts of a job, newest first by default")
                .query::<wire::JobAttemptsQuery>()
                .ok::<Page<wire::Attempt>>(),
        ),
        at("/jobs/{job}/trigger").post(
            P::JobsTrigger,
            trigger::trigger,
            operation("Trigger a job: run it now, regardless of its schedule")
                .if_match()
                .may_take::<wire::TriggerRequest>()
                .repeatable()
                .returns::<wire::Triggered>(StatusCode::ACCEPTED),
        ),
        at("/jobs/{job}/preview").get(
            P::JobsRead,
            previews::of_job,
            operation("Show the next fire times of a job").query::<wire::PreviewQuery>().ok::<wire::Preview>(),
        ),
        at("/jobs/{job}/explain").get(
            P::JobsRead,
            explanations::of_job,
            operation("Explain a job: the outcome of each fire time of a range, and its blockers")
                .query::<wire::ExplainQuery>()
                .ok::<wire::Explanation>(),
        ),
        at("/jobs/{job}/pause").post(
            P::JobsOperate,
            pauses::pause(Pausable::Job),
            switched("Hold the schedule of a job").may_take::<wire::PauseRequest>(),
        ),
        at("/jobs/{job}/resume").post(P::JobsOperate, pauses::resume(Pausable::Job), switched("End the pause of a job")),
        at("/jobs/{job}/enable").post(P::JobsOperate, switches::enable, switched("Enable a job")),
        at("/jobs/{job}/disable").post(P::JobsOperate, switches::disable, switched("Disable a job")),
        at("/jobs/{job}/cancel").post(
            P::RunsOperate,
            cancellations::of_job,
            operation("Cancel all open runs of a job")
                .may_take::<wire::ReasonRequest>()
                .ok::<wire::JobCancelled>(),
        ),
        at("/schedules/preview").post(
            P::JobsRead,
            previews::of_schedule,
            operation("Preview the fire times of a schedule that is not saved")
                .accepts::<wire::PreviewRequest>()
                .ok::<wire::Preview>(),
        ),
        at("/apply").post(
            P::JobsWrite,
            apply::apply,
            operation("Apply a manifest: queues, calendars, functions, templates, jobs, notification channels and rules, all or none")
                .query::<wire::ApplyQuery>()
                .accepts::<wire::Manifest>()
                .ok::<wire::ApplyResult>(),
        ),
        at("/export").get(
            P::JobsRead,
            export::export,
            operation("Export these definitions as they are, without values that may be secrets")
                .query::<wire::ExportQuery>()
                .ok::<wire::Manifest>(),
        ),
    ]
}

fn definitions() -> Vec<Path> {
    vec![
        at("/calendars").get(
            P::JobsRead,
            calendars::list,
            operation("List calendars").query::<PageQuery>().ok::<Page<wire::Calendar>>(),
        ),
        at("/calendars/{name}")
            .get(P::JobsRead, calendars::get, operation("Show a calendar").ok::<wire::Calendar>())
            .put(
                P::JobsWrite,
                calendars::put,
                operation("Create or replace a calendar")
                    .if_match()
                    .accepts_named::<wire::CalendarSpec>()
                    .put::<wire::Calendar>(),
            )
            .delete(
                P::JobsWrite,
                calendars::delete,
                operation("Delete a calendar that no job names").if_match().no_content(),
            ),
        at("/queues").get(
            P::QueuesRead,
            queues::list,
            operation("List queues").query::<wire::QueuesQuery>().ok::<Page<wire::Queue>>(),
        ),
        at("/queues/{name}")
            .get(P::QueuesRead, queues::get, operation("Show a queue").ok::<wire::Queue>())
            .put(
                P::QueuesWrite,
                queues::put,
                operation("Create or replace a queue")
                    .if_match()
                    .accepts::<wire::QueueSpec>()
                    .put::<wire::Queue>(),
            )
            .delete(
                P::QueuesWrite,
                queues::delete,
                operation("Delete an empty queue that no job or function names").if_match().no_content(),
            ),
        at("/secrets").get(
            P::SecretsRead,
            secrets::list,
            operation("List secrets, without their values").query::<PageQuery>().ok::<Page<wire::Secret>>(),
        ),
        at("/secrets/{name}")
            .get(
                P::SecretsRead,
                secrets::get,
                operation("Show a secret, without its value")
                    .query::<wire::SecretQuery>()
                    .ok::<wire::Secret>(),
            )
            .put(
                P::SecretsWrite,
                secrets::put,
                operation("Create or replace a secret")
                    .query::<wire::SecretQuery>()
                    .accepts::<wire::SecretSpec>()
                    .if_match()
                    .put::<wire::Secret>(),
            )
            .delete(
                P::SecretsWrite,
                secrets::delete,
                operation("Delete a secret").query::<wire::DeleteSecretQuery>().if_match().no_content(),
            ),
        at("/secret-keys/rotate").post(
            P::SystemOperate,
            secrets::rotate,
            operation("Encrypt all secrets with the newest key").ok::<wire::SecretsRotated>(),
        ),
        at("/functions").get(
            P::JobsRead,
            functions::list,
            operation("List task functions").query::<wire::FunctionsQuery>().ok::<Page<wire::Function>>(),
        ),
    ]
}

fn runs() -> Vec<Path> {
    let retried = |summary| operation(summary).returns::<wire::Triggered>(StatusCode::ACCEPTED);
    let settled =
        |summary| operation(summary).may_take::<wire::DeadLettersCommand>().ok::<wire::DeadLettersSettled>();
    vec![
        at("/runs").get(
            P::RunsRead,
            run_list::list,
            operation("List runs, newest first by default")
                .query::<wire::RunsQuery>()
                .ok::<Page<wire::Run>>(),
        ),
        at("/runs/{id}").get(P::RunsRead, run_list::get, operation("Show a run").ok::<wire::Run>()),
        at("/runs/{id}/explain").get(
            P::RunsRead,
            explanations::of_dispatch,
            operation("Explain a run: its origin, attempts and blockers").ok::<wire::RunExplanation>(),
        ),
        at("/runs/{id}/cancel").post(
            P::RunsOperate,
            cancellations::dispatch,
            operation("Cancel a waiting or running run")
                .may_take::<wire::ReasonRequest>()
                .ok::<wire::Cancelled>()
                .returns::<wire::Cancelled>(StatusCode::ACCEPTED),
        ),
        at("/runs/{id}/retry").post(
            P::RunsOperate,
            retries::dispatch,
            retried("Run a finished dispatch again"),
        ),
        at("/runs/{id}/logs").get(
            P::RunsRead,
            logs::of_dispatch,
            operation("Read the output of a run, or follow it")
                .query::<wire::LogsQuery>()
                .streams::<wire::LogEvent>(),
        ),
        at("/audit-events").get(
            P::AuditRead,
            audit_events::list,
            operation("List audit entries, newest first by default")
                .query::<wire::AuditQuery>()
                .ok::<Page<wire::AuditEvent>>(),
        ),
        at("/audit-events/{entry}").get(
            P::AuditRead,
            audit_events::get,
            operation("Show an audit entry").ok::<wire::AuditEvent>(),
        ),
        at("/events").get(
            P::RunsRead,
            events::list,
            operation("List events, newest first").query::<wire::EventsQuery>().ok::<Page<wire::Event>>(),
        ),
        at("/events/stream").get(
            P::RunsRead,
            events::stream,
            operation("Follow events as a stream")
                .query::<wire::EventStreamQuery>()
                .streams::<wire::StreamMessage>(),
        ),
        at("/events/{event}").get(P::RunsRead, events::get, operation("Show an event").ok::<wire::Event>()),
        at("/dead-letters").get(
            P::RunsRead,
            dead_letters::list,
            operation("List dead letters").query::<wire::DeadLettersQuery>().ok::<Page<wire::DeadLetter>>(),
        ),
        at("/dead-letters/retry").post(
            P::RunsOperate,
            dead_letters::retry_many,
            settled("Run many dead letters again, a page of them"),
        ),
        at("/dead-letters/discard").post(
            P::RunsOperate,
            dead_letters::discard_many,
            settled("Be done with many dead letters, a page of them"),
        ),
        at("/dead-letters/{id}").get(
            P::RunsRead,
            dead_letters::get,
            operation("Show a dead letter").ok::<wire::DeadLetter>(),
        ),
        at("/dead-letters/{id}/retry").post(
            P::RunsOperate,
            retries::dead_letter,
            retried("Run a dead letter again"),
        ),
        at("/dead-letters/{id}/discard").post(
            P::RunsOperate,
            dead_letters::discard,
            operation("Discard a dead letter").may_take::<wire::ReasonRequest>().ok::<wire::DeadLetter>(),
        ),
        at("/attempts").get(
            P::RunsRead,
            attempt_list::list,
            operation("List attempts, newest first by default")
                .query::<wire::AttemptsQuery>()
                .ok::<Page<wire::Attempt>>(),
        ),
        at("/attempts/{id}").get(
            P::RunsRead,
            attempt_list::get,
            operation("Show an attempt").ok::<wire::Attempt>(),
        ),
        at("/attempts/{id}/output").get(
            P::RunsRead,
            attempt_list::output,
            operation("Read the output of an attempt that has ended").ok::<wire::AttemptOutput>(),
        ),
    ]
}

fn fleet() -> Vec<Path> {
    vec![
        at("/workers").get(
            P::FleetRead,
            fleet::workers,
            operation("List workers").query::<wire::WorkersQuery>().ok::<Page<wire::Worker>>(),
        ),
        at("/workers/{id}").get(P::FleetRead, fleet::worker, operation("Show a worker").ok::<wire::Worker>()),
        at("/schedulers").get(
            P::FleetRead,
            fleet::scheduler_instances,
            operation("List schedulers and their roles").ok::<Page<wire::SchedulerInstance>>(),
        ),
        at("/schedulers/{id}").get(
            P::FleetRead,
            fleet::scheduler_instance,
            operation("Show a scheduler").ok::<wire::SchedulerInstance>(),
        ),
        at("/schedulers/leader/step-down").post(
            P::SystemOperate,
            fleet::step_down,
            operation("Let the leader step down")
                .may_take::<wire::StepDownRequest>()
                .returns::<wire::SchedulerInstance>(StatusCode::ACCEPTED),
        ),
        at("/metrics").get(
            P::RunsRead,
            health::metrics,
            operation("Count jobs and runs by status, with success rate and average duration")
                .query::<wire::MetricsQuery>()
                .ok::<wire::Metrics>(),
        ),
        at("/status").get(
            P::JobsRead,
            fleet::status,
            operation("Show the state of the installation").ok::<wire::Status>(),
        ),
    ]
}
