//! `sched-scheduler`: dispatches due fire times as runs.

fn main() -> std::process::ExitCode {
    sched_runtime::daemon::run(
        &sched_scheduler::PROGRAM,
        sched_scheduler::config::GROUPS,
        sched_scheduler::Config::read,
        sched_scheduler::run,
    )
}
