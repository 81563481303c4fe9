//! A daemon as a separate process: signals, exit codes and the tie to its parent.
//!
//! The process is this test binary, which runs only [`probe`]. It writes `ready` to standard output
//! and holds that pipe open until its end, so every wait is for a line or the end of the pipe.

#![expect(clippy::unwrap_used, reason = "clippy does not see that everything in this file is test code")]

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sched_runtime::config::{ProcessEnvironment, Program, Setting, Source, Values};
use sched_runtime::daemon::{Context, Invocation};
use sched_runtime::exit::{self, ExitError};

const PROGRAM: Program = Program::new("sched-worker", "1.2.3", "Runs jobs");
const SETTINGS: &[Setting] =
    &[Setting::new("probe-manner", "PROBE_MANNER", "WORD", "How to end").default("polite")];

/// The probe's arguments, separated by blanks; the command line belongs to the test harness.
const ARGUMENTS: &str = "PROBE_ARGUMENTS";

#[test]
#[ignore = "not a test: the process that the tests start"]
#[expect(clippy::disallowed_methods, reason = "the harness would replace the exit code by its own")]
fn probe() {
    let given = ProcessEnvironment.get(ARGUMENTS).unwrap_or_default();
    let args = std::iter::once("sched-worker").chain(given.split_whitespace()).map(OsString::from);
    let read = |values: &mut Values| values.string("probe-manner");
    let invocation = Invocation { program: &PROGRAM, groups: &[SETTINGS], args, source: &ProcessEnvironment };
    let code = match invocation.run(read, body) {
        Ok(()) => exit::OK,
        Err(error) => {
            eprintln!("error: {}", error.describe());
            error.code()
        }
    };
    std::process::exit(code.into());
}

async fn body(manner: String, context: Context) -> Result<(), ExitError> {
    println!("ready");
    context.shutdown.soft.cancelled().await;
    println!("asked");
    #[cfg(target_os = "linux")]
    println!("dumpable: {}", nix::sys::prctl::get_dumpable().unwrap());
    match manner.as_str() {
        "polite" => Ok(()),
        "deaf" => std::future::pending().await,
        _ => Err(ExitError::new(exit::SCHEMA, "no such manner")),
    }
}

fn command(arguments: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "probe", "--ignored", "--nocapture"]).env(ARGUMENTS, arguments);
    command
}

struct Probe {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Probe {
    fn start(arguments: &str) -> Self {
        let mut child = command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, output }
    }

    /// Reads up to a line that ends with `word`: the harness writes the test's name before the
    /// first one.
    fn wait_for(&mut self, word: &str) {
        let found = self.output.by_ref().lines().any(|line| line.unwrap().ends_with(word));
        assert!(found, "the probe ended without printing {word}");
    }

    fn send(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().try_into().unwrap()), signal).unwrap();
    }

    fn end(mut self) -> (Option<i32>, String) {
        let mut errors = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
        (self.child.wait().unwrap().code(), errors)
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        // Both fail only for a process that has ended and been reaped.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_signal_ends_a_daemon_in_order_with_code_zero() {
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        let mut probe = Probe::start("--log-format=json");
        probe.wait_for("ready");
        probe.send(signal);
        probe.wait_for("asked");
        let (code, errors) = probe.end();
        assert_eq!(code, Some(0), "{signal}: {errors}");
        let lines: Vec<serde_json::Value> =
            errors.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert!(lines.iter().any(|line| line["signal"] == signal.as_str()), "{errors}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn daemon_hides_from_processes_of_its_user() {
    let mut probe = Probe::start("");
    probe.wait_for("ready");
    probe.send(Signal::SIGTERM);
    probe.wait_for("dumpable: false");
    assert_eq!(probe.end().0, Some(0));
}

#[test]
fn a_second_signal_ends_a_daemon_that_does_not_listen() {
    let mut probe = Probe::start("--probe-manner=deaf");
    probe.wait_for("ready");
    probe.send(Signal::SIGTERM);
    probe.wait_for("asked");
    probe.send(Signal::SIGTERM);
    let (code, errors) = probe.end();
    assert_eq!(code, Some(exit::FAILURE.into()), "{errors}");
    assert!(errors.contains("error: stopped at once by a second signal"), "{errors}");
}

#[test]
fn the_code_of_an_error_is_the_code_of_the_process() {
    let mut probe = Probe::start("--probe-manner=odd");
    probe.wait_for("ready");
    probe.send(Signal::SIGTERM);
    let (code, errors) = probe.end();
    assert_eq!(code, Some(exit::SCHEMA.into()));
    assert!(errors.contains("error: no such manner"), "{errors}");

    let (code, errors) = Probe::start("--log-level=loud --log-format=xml").end();
    assert_eq!(code, Some(exit::USAGE.into()));
    assert!(errors.contains("log-level") && errors.contains("log-format"), "{errors}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_daemon_tied_to_its_parent_ends_when_the_parent_is_killed() {
    let test = command("");
    let words: Vec<String> = std::iter::once(test.get_program())
        .chain(test.get_args())
        .map(|word| format!("'{}'", word.display()))
        .collect();
    // The shell is the parent; it passes its id to the probe and waits.
    let script = format!("{ARGUMENTS}=--exit-with-parent=$$ {} & wait", words.join(" "));
    let child = Command::new("sh").args(["-c", &script]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let mut child = child.unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let mut parent = Probe { child, output };
    parent.wait_for("ready");
    parent.child.kill().unwrap();
    parent.child.wait().unwrap();
    // The probe outlives its parent; the pipe ends with its last holder.
    parent.wait_for("asked");
    std::io::copy(&mut parent.output, &mut std::io::sink()).unwrap();
}

#[cfg(target_os = "linux")]
#[test]
fn a_daemon_whose_parent_is_gone_already_does_not_start() {
    let (code, errors) = Probe::start("--exit-with-parent=1").end();
    assert_eq!(code, Some(exit::FAILURE.into()));
    assert!(errors.contains("error: parent process 1 is gone already"), "{errors}");
}
