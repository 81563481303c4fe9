//! The processes of an installation: leadership, health, housekeeping and the overview.

pub mod health;
pub mod housekeeping;
pub mod leadership;
pub mod overview;
