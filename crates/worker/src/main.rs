//! `sched-worker`: claims dispatches, runs them and reports. See the library for how.

fn main() -> std::process::ExitCode {
    sched_worker::Worker::builder().main()
}
