//! The database layer against a real PostgreSQL: each function, its races and its rejections.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that cannot get what it needs fails, and says where"
)]

mod attempts;
mod calendars;
mod catalogue;
mod changes;
mod claim_costs;
mod claims;
mod commands;
mod dead_letters;
mod deletion;
mod dependencies;
mod due;
mod enums;
mod errors;
mod event_stream;
mod fairness;
mod fixture;
mod history;
mod identity;
mod isolation;
mod job_lists;
mod job_names;
mod job_of_dispatch;
mod jobs;
mod kept_answers;
mod leadership;
mod ledger;
mod limits;
mod line;
mod live;
mod lone;
mod losses;
mod migrations;
mod notify;
mod overdue;
mod partitions;
mod pauses;
mod plans;
mod quotas;
mod races;
mod reads;
mod recovery;
mod retention;
mod secrets;
mod sessions;
mod settings_rules;
mod step_down;
mod stuck;
mod system;
mod tick;
mod timetables;
mod triggers;
mod views;
mod waiting;
mod waits;
