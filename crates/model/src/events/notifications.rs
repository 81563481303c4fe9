//! Notifications: channels, rules, messages, and how the leader finds what is to be told.
//!
//! The path of a message: something happens and leaves its event; the leader, which reads the stream of events after a position that it
//! keeps ([`follow`]), writes a delivery for each rule that matches and moves the position in the same fenced transaction, so that
//! none is lost and none is made twice; it gives deliveries that wait their dispatch of the built-in job `sched.notify`, as many at a time
//! as a channel may have; a worker sends it ([`deliveries::to_send`]); and the leader reads from the events of that dispatch what has become
//! of it. So there is one writer for each step, and a process that dies at any of them leaves whole steps.

pub mod channels;
pub mod deliveries;
pub mod follow;
pub mod rules;
