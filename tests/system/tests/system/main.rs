//! The real programs together, with and without faults.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that cannot get what it needs fails, and says where"
)]

mod broken_fences;

mod checkers {
    mod finished_run;
    mod invariants;
}

mod clients {
    mod commands;
    mod dev;
    mod migrations;
    mod notifications;
    mod restore;
    mod secrets;
}

mod daemons {
    mod bad_starts;
    mod examples;
    mod pooler;
    mod restart;
    mod service_manager;
}

mod failover {
    mod clock;
    mod database;
    mod death;
    mod frozen;
    mod handover;
    mod network;
    mod standby;
}

mod observation {
    mod heartbeat;
    mod monitoring;
    mod traces;
    mod tracker;
}

mod schedules {
    mod dependencies;
    mod ledger;
    mod policies;
    mod scenarios;
    mod timetables;
}

mod workers {
    mod database;
    mod drains;
    mod faults;
    mod fleet;
    mod hostile_http;
    mod live;
    mod polling;
    mod waiting;
}
