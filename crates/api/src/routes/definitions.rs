//! Routes of definitions: functions, calendars, templates, projects, queues, secrets.

pub(crate) mod calendars;
pub(crate) mod functions;
pub(crate) mod projects;
pub(crate) mod queues;
pub(crate) mod secrets;
pub(crate) mod templates;
