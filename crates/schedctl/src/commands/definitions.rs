//! Commands for definitions.

pub(crate) mod calendars;
pub(crate) mod functions;
pub(crate) mod notifications;
pub(crate) mod projects;
pub(crate) mod queues;
pub(crate) mod secrets;
pub(crate) mod templates;
