//! Routes for operators: fleet, health, maintenance, events, audit log, notifications.

pub(crate) mod audit_events;
pub(crate) mod auditing;
pub(crate) mod drains;
pub(crate) mod event_list;
pub(crate) mod event_socket;
pub(crate) mod events;
pub(crate) mod fleet;
pub(crate) mod health;
pub(crate) mod maintenance;
pub(crate) mod notifications;
