//! `sched-worker`: claims runs, executes them and stores their results. See the library.

fn main() -> std::process::ExitCode {
    sched_worker::Worker::builder().main()
}
