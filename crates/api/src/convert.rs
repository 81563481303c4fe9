//! Converts between the types of the wire and of the domain.
//!
//! Requests become checked settings ([`spec`]); rows become answers ([`response`]). Pure: checks
//! that need the database are elsewhere.

pub(crate) mod calendar;
pub(crate) mod effective;
pub(crate) mod enums;
pub(crate) mod explain;
pub(crate) mod fleet;
pub(crate) mod health;
pub(crate) mod hidden;
pub(crate) mod identity;
pub(crate) mod manifest;
pub(crate) mod merge_patch;
pub(crate) mod moment;
pub(crate) mod notification;
pub(crate) mod preview;
pub(crate) mod project;
pub(crate) mod queue;
pub(crate) mod response;
pub(crate) mod secret;
pub(crate) mod spec;
pub(crate) mod stored;
pub(crate) mod template;

pub(crate) use crate::convert::enums::{IntoDomain, IntoWire};
