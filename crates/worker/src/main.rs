//! `sched-worker`: claims dispatches, runs them and reports. See the library for how.

fn main() -> std::process::ExitCode {
    sched_runtime::daemon::run(
        &sched_worker::PROGRAM,
        sched_worker::config::GROUPS,
        sched_worker::Config::read,
        sched_worker::run,
    )
}
