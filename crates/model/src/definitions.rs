//! Definitions that users maintain besides jobs: functions, calendars, templates, projects, queues,
//! secrets, and pauses.

pub mod built_in;
pub mod calendars;
pub mod dependencies;
pub mod functions;
pub mod job_types;
pub mod pauses;
pub mod projects;
pub mod queues;
pub mod resources;
pub mod secrets;
pub mod templates;
