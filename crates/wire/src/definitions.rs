//! Definitions: jobs and what they refer to, as written and as stored.

pub(crate) mod calendar;
pub(crate) mod effective;
pub(crate) mod function;
pub(crate) mod job;
pub(crate) mod job_type;
pub(crate) mod manifest;
pub(crate) mod notification;
pub(crate) mod preview;
pub(crate) mod project;
pub(crate) mod queue;
pub(crate) mod secret;
pub(crate) mod template;
