#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that cannot get what it needs fails, and says where"
)]

mod hostile;
mod requests;
mod servers;
mod support;
mod trouble;
