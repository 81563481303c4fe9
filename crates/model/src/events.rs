//! The event stream and the notifications that follow it.

pub mod append;
pub mod notifications;
mod section;
pub mod stream;
