//! The database layer against a real PostgreSQL.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that cannot get what it needs fails, and says where"
)]

mod cluster {
    pub(crate) mod leadership;
    mod step_down;
    mod views;
}

mod connection {
    mod catalogue;
    mod enums;
    mod errors;
    mod isolation;
    mod migrations;
    mod notify;
    mod reads;
    mod worker_role;
}

mod costs {
    mod churn;
    mod churned_plans;
    mod claims;
    mod plans;
    mod rare_rows;
}

mod definitions {
    mod calendars;
    mod secrets;
    mod system;
}

mod dispatching {
    mod arguments;
    mod commands;
    mod dead_letters;
    pub(crate) mod dependencies;
    mod dependency_rules;
    mod due;
    mod job_of_dispatch;
    pub(crate) mod line;
    mod plain_triggers;
    mod planned;
    pub(crate) mod tick;
    mod triggers;
}

mod events {
    mod batches;
    mod event_stream;
}

mod explain {
    pub(crate) mod ledger;
    mod waits;
}

mod identity {
    mod kept_answers;
    mod sessions;
    mod users;
}

mod jobs {
    mod changes;
    mod deletion;
    mod job_lists;
    mod job_names;
    mod pauses;
    mod settings_rules;
    mod timetables;
    mod writes;
}

mod recovery {
    pub(crate) mod dead_workers;
    mod idle_leases;
    mod losses;
    pub(crate) mod overdue;
    mod stuck;
}

mod retention {
    mod partitions;
    mod retain;
}

mod running {
    mod attempts;
    mod claims;
    mod fairness;
    mod history;
    mod job_counters;
    mod limits;
    mod live;
    mod lone;
    mod quotas;
    mod races;
    mod turns;
    pub(crate) mod waiting;
}
