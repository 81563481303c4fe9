//! Definitions besides jobs: functions, calendars, templates, projects, queues, secrets, and
//! pauses.

pub mod built_in;
pub mod calendars;
pub mod dependencies;
pub mod functions;
pub mod job_types;
pub mod pauses;
pub mod projects;
pub mod queues;
pub mod resources;
pub(crate) mod saved;
pub mod secrets;
pub(crate) mod stored_json;
pub mod templates;
