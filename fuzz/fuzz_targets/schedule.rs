//! The fire times of a stored schedule and its plans after outages.
//!
//! `case` builds the input, `laws` has the checks, and `model` the rules of daylight saving. A
//! panic is a finding, and so is an error of the kind `Engine`, as in the target `cron`.

#![no_main]

#[path = "schedule/case.rs"]
mod case;
#[path = "schedule/laws.rs"]
mod laws;
#[path = "schedule/model.rs"]
mod model;
mod reading;
#[expect(dead_code, reason = "only single minutes are asked about here")]
#[path = "../../crates/timetable/src/tests/reference.rs"]
mod reference;

use libfuzzer_sys::fuzz_target;
use sched_timetable::{Schedule, ScheduleSource};

use self::case::Case;

fuzz_target!(|case: Case| {
    let source = ScheduleSource {
        job_type: case.job_type,
        config: &case.config,
        timezone: &case.zone,
        dst_gap: case.gap,
        dst_overlap: case.overlap,
        created_at: case.created_at,
        hash_key: case::HASH_KEY,
    };
    match Schedule::parse(&source) {
        Err(error) => laws::refusal(&error),
        Ok(schedule) => {
            laws::words(&schedule, &source);
            laws::fires(&schedule, &case);
            laws::daylight_saving(&schedule, &case);
            laws::preview(&schedule, &case);
            laws::plan(&schedule, &case);
        }
    }
});
