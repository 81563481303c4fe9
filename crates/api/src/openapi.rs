//! The OpenAPI document: what the API takes and answers, from the table of routes and the types themselves.
//!
//! Made once, when it is first asked for. Nothing of it is written by hand but summaries, so it cannot speak of a route or a
//! field that is not there, or leave one out. Version 3.1 (spec.openapis.org/oas/v3.1.1), whose schemas are JSON Schema 2020-12.

mod document;
mod naming;
mod operation;
mod page;
mod problems;

pub(crate) use crate::openapi::operation::{Says, operation};
pub(crate) use document::document;
pub(crate) use page::{is_public, json, page, swagger};
#[cfg(test)]
pub(crate) use problems::TEXT as PROBLEMS;
pub(crate) use problems::problems;
