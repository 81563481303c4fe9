//! `sched-api`: the HTTP API. See the library.

fn main() -> std::process::ExitCode {
    sched_runtime::daemon::run(
        &sched_api::PROGRAM,
        sched_api::config::GROUPS,
        sched_api::Config::read,
        sched_api::run,
    )
}
