#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "clippy does not see that everything here is test code"
)]

mod documented;
mod support;

mod access {
    mod isolation;
    pub(crate) mod permissions;
    mod quotas;
    mod rate_limits;
    mod restraint;
    mod session_rules;
    mod sessions;
    mod tokens;
    mod users;
}

mod definitions {
    mod args_schema;
    mod calendars;
    mod functions;
    mod projects;
    mod queues;
    mod secrets;
    mod templates;
}

mod jobs {
    mod apply;
    mod apply_once;
    mod dependencies;
    mod explanations;
    mod exports;
    mod gathered;
    mod job_crowd;
    mod job_life;
    mod mistakes;
    mod previews;
    mod switches;
    mod triggers;
    mod writes;
}

mod operations {
    mod audit_events;
    mod event_positions;
    mod events;
    mod installation;
    mod leader;
    mod life;
    mod notifications;
    pub(crate) mod web_sockets;
}

mod requests {
    mod bad_requests;
    mod conditions;
    mod filters;
    mod lists;
    mod once;
    mod singles;
}

mod runs {
    mod commands;
    mod dead_letters;
    mod logs;
}
