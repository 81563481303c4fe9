//! HTTP functions that all routes share: middleware, extractors, idempotency keys, pagination,
//! streams and replies.

pub(crate) mod by_name;
pub(crate) mod call;
pub(crate) mod client_address;
pub(crate) mod cursor;
pub(crate) mod extract;
pub(crate) mod idempotency;
pub(crate) mod middleware;
pub(crate) mod origin;
pub(crate) mod pagination;
pub(crate) mod reply;
pub(crate) mod route;
pub(crate) mod stream;
pub(crate) mod stream_limits;
