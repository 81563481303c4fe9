//! Notifications: channels, rules, deliveries, and how the leader finds new deliveries.
//!
//! The path of a delivery:
//!
//! 1. A change appends its event.
//! 2. The leader reads the events after a stored position ([`follow`]). One fenced transaction
//!    writes a delivery for each matching rule and moves the position, so none is lost or
//!    duplicated.
//! 3. The leader gives waiting deliveries their runs of the built-in job `sched.notify`, up to the
//!    limit of a channel.
//! 4. A worker sends the delivery ([`deliveries::to_send`]).
//! 5. The leader reads the outcome from the events of that run.
//!
//! So each step has one writer, and a process that dies leaves whole steps.

pub mod channels;
pub mod deliveries;
pub mod follow;
pub mod rules;
