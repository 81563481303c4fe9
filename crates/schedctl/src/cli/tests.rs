use sched_runtime::exit;

use super::*;

#[test]
fn command_line_is_consistent() {
    command().debug_assert();
}

#[test]
fn help_shows_watch_of_read_only_commands() {
    let help = |line: &str| {
        let words = ["schedctl"].into_iter().chain(line.split(' ')).chain(["--help"]);
        command().try_get_matches_from(words).unwrap_err().to_string()
    };
    for (line, is_shown) in [
        ("jobs list", true),
        ("status", true),
        ("leader status", true),
        ("jobs create", false),
        ("jobs trigger", false),
        ("dev", false),
        ("migrate status", false),
    ] {
        assert_eq!(help(line).contains("--watch"), is_shown, "{line}");
    }
    assert!(help("jobs list").contains("Usage: schedctl jobs list"), "{}", help("jobs list"));
}

#[test]
fn help_and_page_list_every_exit_code() {
    let codes = [
        exit::OK,
        exit::FAILURE,
        exit::USAGE,
        exit::DATABASE,
        exit::SCHEMA,
        exit::LISTEN,
        exit::REMOTE,
        exit::REFUSED,
        exit::ENDED_OTHERWISE,
        exit::TOO_LATE,
    ];
    let named: Vec<u8> = EXIT_CODES
        .lines()
        .skip(1)
        .map(|line| line.split_whitespace().next().unwrap().parse().unwrap())
        .collect();
    assert_eq!(named, codes);
    let page = include_str!("../../../../docs/reference/exit-codes.md");
    for line in EXIT_CODES.lines().skip(1) {
        let code = line.split_whitespace().next().unwrap();
        assert!(page.contains(&format!("| {code} |")), "the page does not have exit code {code}");
    }
}

#[test]
fn help_shows_the_variable_of_each_flag() {
    let mut help = Cli::command();
    let text = help.find_subcommand_mut("dev").unwrap().render_long_help().to_string();
    assert!(text.contains("[env: API_PORT=") && text.contains("[env: WORKER_CONCURRENCY="), "{text}");
}

#[test]
fn a_status_is_read_in_any_case_and_a_wrong_one_is_answered_with_the_right_ones() {
    let parsed = Cli::try_parse_from(["schedctl", "runs", "list", "--status", "dead_letter"]);
    assert!(parsed.is_ok(), "{parsed:?}");
    let error = Cli::try_parse_from(["schedctl", "runs", "list", "--status", "dead"]).unwrap_err();
    assert!(error.to_string().contains("dead_letter"), "{error}");
}

#[test]
fn what_is_no_value_of_a_flag_is_answered_in_words_of_the_flag() {
    for (line, flag, said) in [
        ("queues set q --max-running x", "--max-running", "must be a whole number"),
        ("queues set q --default-priority 200", "--default-priority", "from 0 to 100"),
        ("workers drain nope", "<ID>", "must be an id"),
        ("runs get nope", "<ID>", "must be an id"),
        ("dead-letters retry nope", "[ID]", "must be an id"),
        ("attempts list --run nope", "--run", "must be an id"),
        ("events list --run nope", "--run", "must be an id"),
        ("runs logs nope", "<ID>", "must be an id"),
        ("jobs list --limit 0", "--limit", "1 or more"),
        ("jobs create j --function f --timeout 0s", "--timeout", "a whole number of seconds"),
        ("jobs create j --function f --cron @daily --interval 5m", "--interval", "cannot be used with"),
        ("jobs create j", "--function", "required"),
        ("functions create f --config []", "--config", "must be a JSON object"),
        ("functions create f", "PROGRAM", "required"),
        ("jobs rollback j --to x", "--to", "must be a whole number"),
        ("metrics --hours 1000", "--hours", "from 1 to 744"),
        ("dev --api-port x", "--api-port", "must be a whole number"),
        ("events wait --job j --timeout soon", "--timeout", "duration"),
        ("api-keys create k --expires-at soon", "--expires-at", "is not an instant"),
        ("schedules preview --cron @daily --count x", "--count", "from 1 to 10000"),
    ] {
        let words = ["schedctl"].into_iter().chain(line.split(' '));
        let error = Cli::try_parse_from(words).unwrap_err().to_string();
        assert!(error.contains(flag) && error.contains(said), "{line}: {error}");
    }
}

#[test]
fn relative_times_in_the_past_are_accepted() {
    for line in [
        "jobs pause j --until -4h",
        "jobs explain j --from -2h --to -1h",
        "events list --since -2h --until -1h",
        "dead-letters list --since -1d",
        "audit-events list --since -1d",
    ] {
        let parsed = Cli::try_parse_from(["schedctl"].into_iter().chain(line.split(' ')));
        assert!(parsed.is_ok(), "{line}: {parsed:?}");
    }
}

#[test]
fn get_has_the_alias_show() {
    let mut nouns = Vec::new();
    for noun in Cli::command().get_subcommands() {
        assert!(noun.get_subcommands().all(|verb| verb.get_name() != "show"), "{}", noun.get_name());
        if let Some(get) = noun.find_subcommand("get") {
            assert_eq!(get.get_visible_aliases().collect::<Vec<_>>(), ["show"], "{}", noun.get_name());
            nouns.push(noun.get_name().to_owned());
        }
    }
    nouns.sort();
    assert_eq!(
        nouns,
        [
            "api-keys",
            "attempts",
            "audit-events",
            "calendars",
            "dead-letters",
            "functions",
            "jobs",
            "projects",
            "queues",
            "runs",
            "schedulers",
            "secrets",
            "templates",
            "tenants",
            "users",
            "workers"
        ]
    );
}
