//! Targets of HTTP calls: public addresses, and private ones that the operator allows.

mod addresses;
mod allow;
mod client;

pub use addresses::{embedded, refusal};
pub use allow::{AllowEntry, AllowList, InvalidTarget, normal_name};
pub use client::{CallError, InvalidUrl, RefusedTarget, TargetClient, TargetUrl};
