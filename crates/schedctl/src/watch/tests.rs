//! Commands that can be watched, and the printed output.

use clap::Command;

use super::*;

fn leaves<'a>(command: &'a Command, words: &mut Vec<&'a str>, found: &mut Vec<String>) {
    if !command.has_subcommands() && only_reads(words) {
        found.push(words.join(" "));
    }
    for inner in command.get_subcommands() {
        words.push(inner.get_name());
        leaves(inner, words, found);
        words.pop();
    }
}

#[test]
fn what_may_be_watched_is_every_list_and_get_and_what_else_only_reads() {
    let cli = Cli::command();
    let mut found = Vec::new();
    leaves(&cli, &mut Vec::new(), &mut found);
    let others: Vec<&String> =
        found.iter().filter(|words| !words.ends_with(" list") && !words.ends_with(" get")).collect();
    assert_eq!(
        others,
        [
            "jobs versions",
            "jobs explain",
            "runs explain",
            "leader status",
            "tenants usage",
            "whoami",
            "status",
            "health",
            "metrics",
        ]
    );
    for words in ["jobs list", "jobs get", "runs list", "attempts get", "schedulers list", "queues list"] {
        assert!(found.iter().any(|found| found == words), "{words}");
    }
    for words in [&["jobs", "trigger"][..], &["migrate", "status"], &["export"], &["dev"], &[]] {
        assert!(!only_reads(words), "{words:?}");
    }
}

#[test]
fn an_alias_may_be_watched_as_what_it_stands_for() {
    let matches = Cli::command().try_get_matches_from(["schedctl", "jobs", "show", "a", "--watch"]).unwrap();
    assert_eq!(arguments(&matches), ["jobs", "get"]);
}

#[test]
fn seconds_are_said_with_an_equals_sign_or_not_at_all() {
    let watch = |line: &str| {
        let words = ["schedctl"].into_iter().chain(line.split(' '));
        Cli::try_parse_from(words).map(|cli| cli.globals.watch).map_err(|error| error.to_string())
    };
    assert_eq!(watch("jobs list"), Ok(None));
    assert_eq!(watch("jobs list --watch"), Ok(Some(2)));
    assert_eq!(watch("jobs get --watch nightly"), Ok(Some(2)));
    assert_eq!(watch("--watch=7 jobs list"), Ok(Some(7)));
    for wrong in ["0", "x", "1.5", "86401"] {
        let error = watch(&format!("jobs list --watch={wrong}")).unwrap_err();
        assert!(error.contains("--watch") && error.contains("from 1 to 86400"), "{error}");
    }
}

fn output(printed: &str) -> CommandOutput {
    CommandOutput { printed: printed.to_owned(), notices: Vec::new() }
}

#[test]
fn a_terminal_is_drawn_anew_and_a_pipe_gets_each_change_as_a_piece() {
    let json = "{\n  \"items\": [\n    {\n      \"text\": \"a\\n  b\"\n    }\n  ]\n}\n";
    let line = "{\"items\": [{\"text\": \"a\\n  b\"}]}\n";
    let table = [(Format::Table, "A\n", "A\n", "\nB\n"), (Format::Wide, "A\n", "A\n", "\nB\n")];
    let others = [(Format::Yaml, "a: 1\n", "---\na: 1\n", "---\nB\n"), (Format::Json, json, line, "B\n")];
    for (format, printed, first, second) in table.into_iter().chain(others) {
        let pipe = Screen { is_terminal: false, format };
        let (one, other) = (output(printed), output("B\n"));
        assert_eq!(pipe.text(None, &one), first);
        assert_eq!(pipe.text(Some(&one), &other), second);
        assert_eq!(pipe.text(Some(&one), &one), "");
        let terminal = Screen { is_terminal: true, format };
        assert_eq!(terminal.text(Some(&one), &one), format!("{CLEAR}{printed}"));
    }
    let value: serde_json::Value = serde_json::from_str(line).unwrap();
    assert_eq!(value, serde_json::from_str::<serde_json::Value>(json).unwrap());
}
