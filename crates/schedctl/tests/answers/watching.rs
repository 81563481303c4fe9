//! Rounds, failures and end of `--watch`.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sched_runtime::exit;
use scripted_http::sequence;
use serde_json::Value;

use crate::api::{Api, page, problem, response, text};
use crate::job;

/// Ends the program as Ctrl-C does; returns the rest of standard error.
fn interrupted(mut child: Child) -> String {
    kill(Pid::from_raw(child.id().try_into().unwrap()), Signal::SIGINT).unwrap();
    let mut told = String::new();
    child.stderr.take().unwrap().read_to_string(&mut told).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(exit::OK.into()), "{told}");
    told
}

fn start(api: &Api, arguments: &str) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut command = api.command(arguments);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    (child, output)
}

/// A stub API with one answer after the other; the last answer repeats.
fn in_turn(answers: Vec<(u16, String)>) -> Api {
    Api::scripted(sequence(answers.into_iter().map(|(status, body)| response(status, body))))
}

#[test]
fn each_change_is_a_line_of_json_and_a_failure_in_between_is_told_and_tried_again() {
    let (one, other) = (page(&[job("enabled")], None), page(&[job("paused")], None));
    let busy = problem(503, "unavailable", "the database cannot be reached");
    let api = in_turn(vec![
        (200, one.to_string()),
        (200, one.to_string()),
        (503, busy),
        (200, one.to_string()),
        (200, other.to_string()),
    ]);
    let (child, output) = start(&api, "jobs list -o json --watch=1");
    let printed: Vec<Value> =
        output.lines().take(2).map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect();
    assert_eq!(printed, [one, other]);
    assert!(api.routes().len() >= 5);
    let told = interrupted(child);
    assert!(told.contains("cannot be reached (status 503") && told.contains("retrying every 1s"), "{told}");
    assert!(told.ends_with("the API answers again\n"), "{told}");
    assert_eq!(told.lines().count(), 2, "{told}");
}

#[test]
fn a_table_follows_the_one_before_it_after_an_empty_line() {
    let answers = ["enabled", "paused"].map(|status| (200, page(&[job(status)], None).to_string()));
    let api = in_turn(answers.into());
    let (child, output) = start(&api, "jobs list --watch=1");
    let lines: Vec<String> = output.lines().take(5).map(|line| line.unwrap()).collect();
    assert!(lines[0].starts_with("NAME") && lines[1].contains(" enabled "), "{lines:?}");
    assert!(
        lines[2].is_empty() && lines[3].starts_with("NAME") && lines[4].contains(" paused "),
        "{lines:?}"
    );
    assert!(!lines.concat().contains('\u{1b}'), "{lines:?}");
    assert_eq!(interrupted(child), "");
}

#[test]
fn the_first_failure_ends_it_and_so_does_a_refusal_and_a_closed_pipe() {
    let refused = (404, problem(404, "not_found", "there is no job named nightly"));
    let api = in_turn(vec![(503, problem(503, "unavailable", "later"))]);
    api.run(exit::REFUSED, "jobs get nightly --watch=1");
    let api = in_turn(vec![(200, job("enabled").to_string()), refused]);
    let ended = api.run(exit::REFUSED, "jobs show nightly --watch=1");
    assert!(text(&ended.stdout).contains("enabled") && text(&ended.stderr).contains("no job named nightly"));
    assert_eq!(api.routes().len(), 2);
    let answers = ["enabled", "paused"].map(|status| (200, job(status).to_string()));
    let api = in_turn(answers.into());
    let (mut child, mut output) = start(&api, "jobs get nightly --watch=1");
    output.read_line(&mut String::new()).unwrap();
    drop(output);
    assert_eq!(child.wait().unwrap().code(), Some(exit::OK.into()));
}

#[test]
fn what_does_more_than_read_is_not_repeated() {
    let api = in_turn(vec![(200, "{}".to_owned())]);
    for words in ["jobs trigger nightly --watch", "export --watch", "migrate status --watch=5"] {
        let refused = api.run(exit::USAGE, words);
        assert!(
            text(&refused.stderr).contains("works only with read-only commands"),
            "{}",
            text(&refused.stderr)
        );
    }
    assert_eq!(api.routes().len(), 0, "nothing was sent");
}
