//! The OpenAPI document, from the table of routes and the types themselves.
//!
//! It is built once, at its first use. Only the summaries are written by hand. Version 3.1
//! (spec.openapis.org/oas/v3.1.1), whose schemas are JSON Schema 2020-12.

mod document;
mod naming;
mod operation;
mod page;
mod portable;
mod problems;

pub(crate) use crate::openapi::operation::{OperationDoc, operation};
pub(crate) use document::document;
pub(crate) use page::{DOCUMENT, index, json, page, swagger};
#[cfg(test)]
pub(crate) use problems::TEXT as PROBLEMS;
pub(crate) use problems::problems;
