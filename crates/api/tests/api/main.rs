//! The API from outside: HTTP requests against a real database.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "clippy does not see that everything here is test code"
)]

mod apply;
mod args_schema;
mod audit_events;
mod bad_requests;
mod calendars;
mod commands;
mod conditions;
mod dependencies;
mod documented;
mod events;
mod explanations;
mod functions;
mod gathered;
mod identity;
mod installation;
mod isolation;
mod job_crowd;
mod job_life;
mod jobs;
mod leader;
mod life;
mod lists;
mod logs;
mod notifications;
mod once;
mod previews;
mod projects;
mod queues;
mod quotas;
mod restraint;
mod secrets;
mod sessions;
mod singles;
mod support;
mod switches;
mod templates;
mod tokens;
mod triggers;
mod web_sockets;
