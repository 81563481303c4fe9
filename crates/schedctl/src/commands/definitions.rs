//! Commands for definitions: functions, calendars, templates, projects, queues, secrets, notifications.

pub(crate) mod calendars;
pub(crate) mod functions;
pub(crate) mod notifications;
pub(crate) mod projects;
pub(crate) mod queues;
pub(crate) mod secrets;
pub(crate) mod templates;
