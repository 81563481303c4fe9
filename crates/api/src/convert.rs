//! Between the words of the wire and the types of the domain, both ways.
//!
//! Requests become settings that are complete and checked ([`spec`]); rows become answers ([`show`]). Pure: what only the
//! database can tell (does the function exist?) is not asked here.

pub(crate) mod calendar;
pub(crate) mod enums;
pub(crate) mod explain;
pub(crate) mod health;
pub(crate) mod hidden;
pub(crate) mod identity;
pub(crate) mod manifest;
pub(crate) mod merge_patch;
pub(crate) mod moment;
pub(crate) mod notification;
pub(crate) mod preview;
pub(crate) mod queue;
pub(crate) mod response;
pub(crate) mod secret;
pub(crate) mod spec;
pub(crate) mod template;

pub(crate) use crate::convert::enums::{IntoDomain, IntoWire};
