//! `sched-scheduler`: turns due fire times into dispatches. See the library for how.

fn main() -> std::process::ExitCode {
    sched_runtime::daemon::run(
        &sched_scheduler::PROGRAM,
        sched_scheduler::config::GROUPS,
        sched_scheduler::Config::read,
        sched_scheduler::run,
    )
}
